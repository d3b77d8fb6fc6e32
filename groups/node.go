package groups

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// checkpointEvery is how often what changed is written to disk.
	checkpointEvery = 5 * time.Second
	// progressEvery is how often subscribers are told the whole cursor.
	progressEvery = 5 * time.Second
	// reattachGrace is how long a waiting acquire outlives the process that held its
	// call, so that its client can come back and ask again.
	reattachGrace = 10 * time.Second
)

// Node is one member of a cluster: its replicas of the logs, its database, and the
// Handler that carries requests to them.
type Node struct {
	cfg     Config
	id      *identity
	log     *slog.Logger
	clock   Clock
	replica uint64
	process uint64 // incarnation: which run of the node this is
	store   *store
	host    *dragonboat.NodeHost

	logs     map[uint64]*shardLog // by shard; never changed once started
	readers  map[uint64]*reader
	machines map[uint64]*machine
	homes    []uint64 // shard of each group: where a group lives is looked up here
	routes   atomic.Pointer[engine.Routes]
	inflight []atomic.Int32 // by group, the system group last
	cache    groupCache
	hub      *hub
	waits    openWaits
	changes  changeCalls
	slow     chan struct{} // a token for each call that is carried out in steps

	draining atomic.Bool
	refusal  atomic.Pointer[wire.Error] // why writes that grow the state are refused
	starved  atomic.Bool                // renewals are refused too
	topology topology
	ready    chan struct{} // closed when every machine is loaded
	loading  atomic.Int32

	policy   chan struct{} // policyWork
	soon     chan struct{} // checkpointSoon
	stop     chan struct{}
	stopOnce sync.Once
	running  sync.WaitGroup
}

// Open starts a node on its data directory, or founds a cluster of one on an empty
// one if the configuration says so. It serves as soon as Open returns; requests
// wait until the logs have leaders.
func Open(cfg Config) (*Node, error) {
	cfg = cfg.Defaults()
	logRaftTo(cfg.Log)
	id, err := loadIdentity(cfg.DataDir)
	switch {
	case errors.Is(err, ErrNoIdentity) && cfg.Bootstrap:
		if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
			return nil, fmt.Errorf("data_dir: %w", err)
		}
		id = cfg.found()
	case errors.Is(err, ErrNoIdentity):
		return nil, fmt.Errorf("data_dir %s: %w, and bootstrap is off: set bootstrap = true to found a cluster here", cfg.DataDir, err)
	case err != nil:
		return nil, err
	default:
		if err := id.check(&cfg); err != nil {
			return nil, err
		}
	}
	n := newNode(cfg, id)
	if err := n.start(); err != nil {
		return nil, errors.Join(err, n.shut())
	}
	return n, nil
}

func newNode(cfg Config, id *identity) *Node {
	n := &Node{
		cfg: cfg, id: id, log: cfg.Log, clock: cfg.Clock, replica: id.Replica, process: newIncarnation(),
		logs: make(map[uint64]*shardLog), readers: make(map[uint64]*reader), machines: make(map[uint64]*machine),
		inflight: make([]atomic.Int32, id.GroupCount+1), hub: newHub(cfg.EventBuffer),
		slow: make(chan struct{}, maxStepped), ready: make(chan struct{}),
		policy: make(chan struct{}, 1), soon: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	for g := range id.GroupCount {
		n.homes = append(n.homes, firstLogShard+uint64(g%id.LogCount))
	}
	n.routes.Store(engine.NewRoutes(0, id.Segments, nil))
	return n
}

// start opens the database, raft and the logs.
func (n *Node) start() (err error) {
	dir := n.cfg.DataDir
	n.id.Starts++
	if err := n.id.save(dir); err != nil {
		return err
	}
	n.lookAtDisk() // before the first request
	if n.store, err = openStore(filepath.Join(dir, "state"), n.cfg.FS, n.log); err != nil {
		return err
	}
	shards := []uint64{systemShard}
	for i := range n.id.LogCount {
		shards = append(shards, firstLogShard+uint64(i))
	}
	n.loading.Store(int32(len(shards)))
	for _, shard := range shards {
		l, m := newShardLog(n, shard), newMachine(n, shard)
		l.m, m.driver = m, l
		n.logs[shard], n.machines[shard], n.readers[shard] = l, m, &reader{l: l}
	}
	n.host, err = newHost(&n.cfg, n.id, filepath.Join(dir, "raft"), n.leaderUpdated)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		l := n.logs[shard]
		l.host, l.session = n.host, n.host.GetNoOPSession(shard)
		if err := startShard(n.host, &n.cfg, n.id, shard, n.machines[shard]); err != nil {
			return err
		}
		entries, err := n.host.GetLogReader(shard)
		if err != nil {
			return fmt.Errorf("look at log %d: %w", shard, err)
		}
		_, last := entries.GetRange()
		n.hub.began(shard, last)
	}
	for _, l := range n.logs {
		go l.run()
	}
	for _, f := range []func(){n.checkpointLoop, n.policyLoop, n.progressLoop, n.diskLoop, n.orphanLoop} {
		n.running.Add(1)
		go func() {
			defer n.running.Done()
			f()
		}()
	}
	return nil
}

// leaderUpdated is told by raft who leads a log.
func (n *Node) leaderUpdated(info raftio.LeaderInfo) {
	if l := n.logs[info.ShardID]; l != nil {
		l.leaderChanged(info.Term, info.LeaderID)
	}
	n.topologyChanged()
}

// opened is told by a machine that it is loaded.
func (n *Node) opened(m *machine) {
	n.hub.opened(m.shard, m.applied)
	if n.loading.Add(-1) == 0 {
		close(n.ready)
	}
}

// groupsOf lists the groups that live in a log.
func (n *Node) groupsOf(shard uint64) (groups []uint16) {
	for g, s := range n.homes {
		if s == shard {
			groups = append(groups, uint16(g))
		}
	}
	return groups
}

// logOf is the log a group lives in.
func (n *Node) logOf(group uint16) *shardLog {
	if group == systemGroup {
		return n.logs[systemShard]
	}
	return n.logs[n.homes[group]]
}

func (n *Node) engineConfig() engine.Config {
	c := engine.DefaultConfig()
	c.Algorithm, c.Segments, c.MaxQueued = n.cfg.Algorithm, n.cfg.Segments, n.cfg.MaxQueued
	return c
}

// checkpointSoon asks for a checkpoint before it is due.
func (n *Node) checkpointSoon() {
	select {
	case n.soon <- struct{}{}:
	default:
	}
}

// checkpointLoop writes what changed to disk, and lets raft drop the entries that
// this makes needless.
func (n *Node) checkpointLoop() {
	due := time.NewTicker(checkpointEvery)
	defer due.Stop()
	snapshots := make(map[uint64]uint64) // applied index at the last raft snapshot
	written := make(map[uint64]uint64)   // applied index at the last checkpoint
	select {
	case <-n.ready:
	case <-n.stop:
		return
	}
	for {
		select {
		case <-n.stop:
			return
		case <-due.C:
		case <-n.soon:
		}
		for shard, m := range n.machines {
			applied := m.appliedIndex()
			if applied == written[shard] {
				continue
			}
			if err := m.checkpoint(false); err != nil {
				m.fail(err)
			}
			written[shard] = applied
			m.evict()
			if applied-snapshots[shard] >= n.cfg.SnapshotLog {
				snapshots[shard] = applied
				n.snapshot(shard)
			}
		}
	}
}

// snapshot asks raft to take note of the state on disk and to compact the log.
func (n *Node) snapshot(shard uint64) {
	opt := dragonboat.SnapshotOption{CompactionOverhead: n.cfg.KeepEntries, OverrideCompactionOverhead: true}
	rs, err := n.host.RequestSnapshot(shard, opt, n.cfg.RequestTimeout)
	if err != nil {
		n.log.Debug("raft snapshot refused", "log", shard, "error", err)
		return
	}
	<-rs.ResultC()
	rs.Release()
}

// progressLoop tells subscribers where every log is.
func (n *Node) progressLoop() {
	t := time.NewTicker(progressEvery)
	defer t.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-t.C:
			n.hub.progress()
		}
	}
}

// Close drains the node: new requests are refused, those under way are finished
// within the given time, and what is in memory is written to disk.
func (n *Node) Close(within time.Duration) error {
	n.draining.Store(true)
	deadline := time.Now().Add(within)
	for n.busy() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	return n.shut()
}

// shut ends everything that start began.
func (n *Node) shut() error {
	var err error
	n.stopOnce.Do(func() {
		close(n.stop)
		n.running.Wait()
		for _, l := range n.logs {
			if l.session != nil {
				l.close()
			}
		}
		if n.host != nil {
			n.host.Close()
		}
		if n.store != nil {
			for _, m := range n.machines {
				if m.appliedIndex() > 0 {
					err = errors.Join(err, m.checkpoint(true))
				}
			}
			err = errors.Join(err, n.store.close())
		}
	})
	return err
}
