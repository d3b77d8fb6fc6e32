package groups

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
	"github.com/pathlockd/pathlockd/groups/replica"
)

// dragon is raft as dragonboat does it.
type dragon struct {
	host *dragonboat.NodeHost
	cfg  *Config
	id   *datadir.Identity
	wire *wiring
	logs map[uint64]*dragonLog // of every log; not changed once made

	// closing is held for reading while the host is asked for something by who the node does not wait for
	// when it ends: reads, connections that end, and operators. A host that is closed under a call panics.
	closing struct {
		sync.RWMutex
		done bool
	}
	ends context.Context // done as it is about to be closed: who would be waited for for long hears of it
	end  context.CancelFunc
}

// newDragon starts dragonboat in dir.
func (n *Node) newDragon(dir string) (raft, error) {
	host, err := n.newHost(dir)
	if err != nil {
		return nil, err
	}
	d := &dragon{host: host, cfg: &n.cfg, id: n.id, wire: n.wire, logs: make(map[uint64]*dragonLog)}
	d.ends, d.end = context.WithCancel(context.Background())
	for _, shard := range n.id.Logs() {
		d.logs[shard] = &dragonLog{dragon: d, shard: shard, session: host.GetNoOPSession(shard)}
	}
	return d, nil
}

func (d *dragon) log(shard uint64) raftLog { return d.logs[shard] }

func (d *dragon) replicas() (all []replicaInfo) {
	info := d.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	for i := range info.ShardInfoList {
		s := &info.ShardInfoList[i]
		all = append(all, replicaInfo{
			shard: s.ShardID, replica: s.ReplicaID, pending: s.Pending, learner: s.IsNonVoting, voters: s.Replicas,
		})
	}
	return all
}

func (d *dragon) campaign(shard, replica uint64) { d.wire.campaign(shard, replica) }

func (d *dragon) stepDown(shard, replica, term uint64) { d.wire.stepDown(shard, replica, term) }

func (d *dragon) close() {
	d.end()
	d.closing.Lock()
	d.closing.done = true
	d.closing.Unlock()
	d.host.Close()
}

// ask has the host asked for something that does not block, unless it is closed.
func (d *dragon) ask(f func() (*dragonboat.RequestState, error)) (pending, error) {
	d.closing.RLock()
	defer d.closing.RUnlock()
	if d.closing.done {
		return nil, errNoReplica
	}
	return dragonPendingOf(f())
}

// dragonLog is one log of it.
type dragonLog struct {
	*dragon
	shard   uint64
	session *client.Session
}

func (l *dragonLog) start(s datadir.Replica, m *replica.Machine) error {
	var founders map[uint64]dragonboat.Target
	if !s.Joined {
		founders = map[uint64]dragonboat.Target{s.ID: l.id.HostID}
	}
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return m }
	if err := l.host.StartOnDiskReplica(founders, s.Joined, create, shardConfig(l.cfg, l.shard, s)); err != nil {
		return fmt.Errorf("start log %d: %w", l.shard, err)
	}
	return nil
}

func (l *dragonLog) stop(replica uint64) error { return ofDragon(l.host.StopReplica(l.shard, replica)) }

func (l *dragonLog) remove(ctx context.Context, replica uint64) error {
	return l.host.SyncRemoveData(ctx, l.shard, replica)
}

func (l *dragonLog) propose(entry []byte, within time.Duration) (pending, error) {
	return l.ask(func() (*dragonboat.RequestState, error) { return l.host.Propose(l.session, entry, within) })
}

func (l *dragonLog) readIndex(within time.Duration) (pending, error) {
	return l.ask(func() (*dragonboat.RequestState, error) { return l.host.ReadIndex(l.shard, within) })
}

// awaited is how many answers await can wait for at once.
const awaited = window + 1

func (l *dragonLog) await(d time.Duration, wake, stop <-chan struct{}, under ...pending) {
	var c [awaited]chan dragonboat.RequestResult // nil ones are never received from
	var p [awaited]*dragonPending
	for i, u := range under {
		p[i] = u.(*dragonPending)
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

func (l *dragonLog) snapshot(keep uint64, within time.Duration) bool {
	opt := dragonboat.SnapshotOption{CompactionOverhead: keep, OverrideCompactionOverhead: true}
	rs, err := l.host.RequestSnapshot(l.shard, opt, within)
	if err != nil {
		l.cfg.Log.Debug("raft snapshot refused", "log", l.shard, "error", err)
		return false
	}
	<-rs.ResultC()
	rs.Release()
	return true
}

func (l *dragonLog) bounds() (first, last uint64, m membership, err error) {
	entries, err := l.host.GetLogReader(l.shard)
	if err != nil {
		return 0, 0, m, ofDragon(err)
	}
	_, at := entries.NodeState()
	first, last = entries.GetRange()
	return first, last, membership{Version: at.ConfigChangeId, Nodes: at.Addresses, NonVotings: at.NonVotings}, nil
}

func (l *dragonLog) members(ctx context.Context) (*membership, error) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closing.done {
		return nil, errNoReplica
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ends, cancel)()
	m, err := l.host.SyncGetShardMembership(ctx, l.shard)
	if err != nil {
		return nil, ofDragon(err)
	}
	return &membership{Version: m.ConfigChangeID, Nodes: m.Nodes, NonVotings: m.NonVotings, Removed: m.Removed}, nil
}

func (l *dragonLog) addLearner(ctx context.Context, replica uint64, host string, version uint64) error {
	return l.host.SyncRequestAddNonVoting(ctx, l.shard, replica, host, version)
}

func (l *dragonLog) promote(ctx context.Context, replica uint64, host string, version uint64) error {
	return l.host.SyncRequestAddReplica(ctx, l.shard, replica, host, version)
}

func (l *dragonLog) expel(ctx context.Context, replica, version uint64) error {
	return l.host.SyncRequestDeleteReplica(ctx, l.shard, replica, version)
}

// dragonPending is a request that dragonboat has under way. It is used by one goroutine
// at a time.
type dragonPending struct {
	state *dragonboat.RequestState
	done  bool
	ok    bool
}

func dragonPendingOf(state *dragonboat.RequestState, err error) (pending, error) {
	if err != nil {
		return nil, ofDragon(err)
	}
	return &dragonPending{state: state}, nil
}

func (p *dragonPending) took(r dragonboat.RequestResult) { p.done, p.ok = true, r.Completed() }

func (p *dragonPending) answered() (done, ok bool) {
	if !p.done {
		select {
		case r := <-p.state.ResultC():
			p.took(r)
		default:
		}
	}
	return p.done, p.ok
}

func (p *dragonPending) release() { p.state.Release() }

// ofDragon is an error of dragonboat as the seam names it.
func ofDragon(err error) error {
	switch {
	case errors.Is(err, dragonboat.ErrSystemBusy), errors.Is(err, dragonboat.ErrShardNotReady):
		return errors.Join(errBusy, err)
	case errors.Is(err, dragonboat.ErrShardNotFound):
		return errors.Join(errNoReplica, err)
	}
	return err
}
