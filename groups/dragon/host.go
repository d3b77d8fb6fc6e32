package dragon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// Host is raft as dragonboat does it. It implements raft.Host.
type Host struct {
	NodeHost *dragonboat.NodeHost // NodeHost is for tests that do what the seam has no word for.
	cfg      Config
	wire     *wiring
	logs     map[uint64]*log // of every log; not changed once made

	// closing is held for reading while the host is asked for something by who the node does not wait for
	// when it ends: reads, connections that end, and operators. A host that is closed under a call panics.
	closing struct {
		sync.RWMutex
		done bool
	}
	ends context.Context // done as it is about to be closed: who would be waited for for long hears of it
	end  context.CancelFunc
}

// Log implements raft.Host, as do the methods below.
func (h *Host) Log(shard uint64) raft.Log { return h.logs[shard] }

func (h *Host) Replicas() (all []raft.ReplicaInfo) {
	info := h.NodeHost.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	for i := range info.ShardInfoList {
		s := &info.ShardInfoList[i]
		all = append(all, raft.ReplicaInfo{
			Shard: s.ShardID, Replica: s.ReplicaID, Pending: s.Pending, Learner: s.IsNonVoting, Voters: s.Replicas,
		})
	}
	return all
}

func (h *Host) Campaign(shard, replica uint64) { h.wire.campaign(shard, replica) }

func (h *Host) StepDown(shard, replica, term uint64) { h.wire.stepDown(shard, replica, term) }

func (h *Host) Close() {
	h.end()
	h.closing.Lock()
	h.closing.done = true
	h.closing.Unlock()
	h.NodeHost.Close()
}

// ask has the host asked for something that does not block, unless it is closed.
func (h *Host) ask(f func() (*dragonboat.RequestState, error)) (raft.Pending, error) {
	h.closing.RLock()
	defer h.closing.RUnlock()
	if h.closing.done {
		return nil, raft.ErrNoReplica
	}
	return pendingOf(f())
}

// log is one log of it. It implements raft.Log.
type log struct {
	*Host
	shard   uint64
	session *client.Session
}

func (l *log) Start(s datadir.Replica, m *replica.Machine) error {
	var founders map[uint64]dragonboat.Target
	if !s.Joined {
		founders = map[uint64]dragonboat.Target{s.ID: l.cfg.Identity.HostID}
	}
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return m }
	if err := l.NodeHost.StartOnDiskReplica(founders, s.Joined, create, l.cfg.shard(l.shard, s)); err != nil {
		return fmt.Errorf("start log %d: %w", l.shard, err)
	}
	return nil
}

func (l *log) Stop(replica uint64) error { return ofDragon(l.NodeHost.StopReplica(l.shard, replica)) }

func (l *log) Remove(ctx context.Context, replica uint64) error {
	return l.NodeHost.SyncRemoveData(ctx, l.shard, replica)
}

func (l *log) Propose(entry []byte, within time.Duration) (raft.Pending, error) {
	return l.ask(func() (*dragonboat.RequestState, error) { return l.NodeHost.Propose(l.session, entry, within) })
}

func (l *log) ReadIndex(within time.Duration) (raft.Pending, error) {
	return l.ask(func() (*dragonboat.RequestState, error) { return l.NodeHost.ReadIndex(l.shard, within) })
}

func (l *log) Await(d time.Duration, wake, stop <-chan struct{}, under ...raft.Pending) {
	var c [raft.MaxAwaited]chan dragonboat.RequestResult // nil ones are never received from
	var p [raft.MaxAwaited]*pending
	for i, u := range under {
		p[i] = u.(*pending)
		if p[i].done {
			return
		}
		c[i] = p[i].state.ResultC()
	}
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-stop:
	case <-wake:
	case <-late.C:
	case r := <-c[0]:
		p[0].took(r)
	case r := <-c[1]:
		p[1].took(r)
	case r := <-c[2]:
		p[2].took(r)
	}
}

func (l *log) Snapshot(keep uint64, within time.Duration) bool {
	opt := dragonboat.SnapshotOption{CompactionOverhead: keep, OverrideCompactionOverhead: true}
	rs, err := l.NodeHost.RequestSnapshot(l.shard, opt, within)
	if err != nil {
		l.cfg.Log.Debug("raft snapshot refused", "log", l.shard, "error", err)
		return false
	}
	<-rs.ResultC()
	rs.Release()
	return true
}

func (l *log) Bounds() (first, last uint64, m raft.Membership, err error) {
	entries, err := l.NodeHost.GetLogReader(l.shard)
	if err != nil {
		return 0, 0, m, ofDragon(err)
	}
	_, at := entries.NodeState()
	first, last = entries.GetRange()
	return first, last, raft.Membership{Version: at.ConfigChangeId, Nodes: at.Addresses, NonVotings: at.NonVotings}, nil
}

func (l *log) Members(ctx context.Context) (*raft.Membership, error) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closing.done {
		return nil, raft.ErrNoReplica
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ends, cancel)()
	m, err := l.NodeHost.SyncGetShardMembership(ctx, l.shard)
	if err != nil {
		return nil, ofDragon(err)
	}
	return &raft.Membership{Version: m.ConfigChangeID, Nodes: m.Nodes, NonVotings: m.NonVotings, Removed: m.Removed},
		nil
}

func (l *log) AddLearner(ctx context.Context, replica uint64, host string, version uint64) error {
	return l.NodeHost.SyncRequestAddNonVoting(ctx, l.shard, replica, host, version)
}

func (l *log) Promote(ctx context.Context, replica uint64, host string, version uint64) error {
	return l.NodeHost.SyncRequestAddReplica(ctx, l.shard, replica, host, version)
}

func (l *log) Expel(ctx context.Context, replica, version uint64) error {
	return l.NodeHost.SyncRequestDeleteReplica(ctx, l.shard, replica, version)
}

// pending is a request that dragonboat has under way. It is used by one goroutine
// at a time.
type pending struct {
	state *dragonboat.RequestState
	done  bool
	ok    bool
}

func pendingOf(state *dragonboat.RequestState, err error) (raft.Pending, error) {
	if err != nil {
		return nil, ofDragon(err)
	}
	return &pending{state: state}, nil
}

func (p *pending) took(r dragonboat.RequestResult) { p.done, p.ok = true, r.Completed() }

func (p *pending) Answered() (done, ok bool) {
	if !p.done {
		select {
		case r := <-p.state.ResultC():
			p.took(r)
		default:
		}
	}
	return p.done, p.ok
}

func (p *pending) Release() { p.state.Release() }

// ofDragon is an error of dragonboat as the seam names it.
func ofDragon(err error) error {
	switch {
	case errors.Is(err, dragonboat.ErrSystemBusy), errors.Is(err, dragonboat.ErrShardNotReady):
		return errors.Join(raft.ErrBusy, err)
	case errors.Is(err, dragonboat.ErrShardNotFound):
		return errors.Join(raft.ErrNoReplica, err)
	}
	return err
}
