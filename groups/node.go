package groups

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/dragon"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
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
	id      *datadir.Identity
	log     *slog.Logger
	clock   replica.Clock
	process uint64 // incarnation: which run of the node this is
	store   *replica.Store
	raft    raft.Host
	tasks   tasks

	logs      map[uint64]*shardLog // by shard; never changed once started
	readers   map[uint64]*reader
	homes     []uint64 // shard of each group: where a group lives is looked up here
	routes    atomic.Pointer[wire.Routes]
	inflight  []atomic.Int32 // by group, the system group last
	cache     groupCache
	hub       *events.Hub
	waits     openWaits
	unheard   unheardEnds
	processes processes
	changes   changeCalls
	moves     moves
	learning  learning
	forwards  forwarding
	backups   exports
	strange   strange
	slow      chan struct{} // a token for each call that is carried out in steps
	turning   atomic.Int32  // how many of those wait for a turn of their connection
	tended    chan struct{} // likewise for health and what operators ask

	draining atomic.Bool
	formats  datadir.Formats
	refusal  atomic.Pointer[wire.Error] // why writes that grow the state are refused
	starved  atomic.Bool                // renewals are refused too
	room     room
	topology topology
	ready    chan struct{} // closed when every machine is loaded
	loading  atomic.Int32

	leaders leaders
	book    *dragon.Registry
	cluster *cluster      // nil while the node is alone and cannot have peers
	idLock  sync.Mutex    // guards what changes of id
	around  chan struct{} // lookAround
	audits  chan struct{} // auditSoon
	plans   plans
	wanted  struct { // replicas that are being started
		sync.Mutex
		under map[uint64]bool
	}
	remote struct { // what the system log's leader told last
		sync.Mutex
		marks map[string]wire.Drain
		asked time.Duration
		tried time.Duration // when it was asked last, answered or not
	}

	policy   chan struct{} // policyWork
	soon     chan struct{} // checkpointSoon
	stop     chan struct{}
	stopOnce sync.Once
	feeding  feeding
	loops    *together // what start began and stop ends
	running  sync.WaitGroup
}

// Open is OpenContext without an end.
func Open(cfg Config) (*Node, error) { return OpenContext(context.Background(), cfg) }

// OpenContext starts a node on its data directory. On an empty one it founds a cluster,
// or joins the one that its seeds belong to, for which it looks until ctx ends. It
// serves as soon as OpenContext returns; requests wait until the logs have leaders.
func OpenContext(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.Defaults()
	dragon.LogTo(cfg.Log, lastWord)
	if len(cfg.Seeds) > 0 && cfg.Token == "" {
		return nil, errors.New("seed_nodes: nodes that have peers need internal_auth_token, the same for all of " +
			"them, at least 32 bytes")
	}
	id, err := datadir.Open(ctx, cfg.birth())
	if err == nil {
		err = cfg.settle(id)
	}
	if err != nil {
		return nil, err
	}
	n := newNode(cfg, id)
	if err := n.start(); err != nil {
		return nil, errors.Join(err, n.shut())
	}
	return n, nil
}

func newNode(cfg Config, id *datadir.Identity) *Node {
	n := &Node{
		cfg: cfg, id: id, log: cfg.Log, clock: cfg.Clock, tasks: goroutines{}, process: newIncarnation(),
		logs: make(map[uint64]*shardLog), readers: make(map[uint64]*reader),
		inflight: make([]atomic.Int32, id.GroupCount+1), hub: events.New(cfg.EventBuffer),
		slow: make(chan struct{}, maxStepped), tended: make(chan struct{}, maxTended), ready: make(chan struct{}),
		book: dragon.NewRegistry(), around: make(chan struct{}, 1), audits: make(chan struct{}, 1),
		policy: make(chan struct{}, 1), soon: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	if s := cfg.seams; s != nil {
		n.tasks, n.process = s.tasks, s.process
		n.forwards.dial.Store(&s.peer)
	}
	n.loops = newTogether(n.tasks)
	n.moves.wake = make(chan struct{}, 1)
	n.learning.begin()
	n.hub.Mark.Index = id.Mark()
	n.formats.Begin(id.Format)
	for g := range id.GroupCount {
		n.homes = append(n.homes, rows.Home(g, id.LogCount))
	}
	n.routes.Store(wire.NewRoutes(0, id.Segments, nil))
	return n
}

// start opens the database, raft and the logs.
func (n *Node) start() (err error) {
	dir := n.cfg.DataDir
	logs, state := filepath.Join(dir, "raft"), filepath.Join(dir, rows.StateDir)
	if err := n.id.CheckParts(dir, logs, state, n.cfg.RaftFS, n.cfg.FS); err != nil {
		return err
	}
	n.id.Starts++
	if err := n.id.Save(dir); err != nil {
		return err
	}
	n.processes.note(n.id.HostID, n.id.Starts-1)
	n.lookAtDisk() // before the first request
	if n.store, err = replica.OpenStore(state, n.cfg.FS, n.log, n.failed); err != nil {
		return err
	}
	if err := n.id.MarkState(dir, state, n.cfg.FS); err != nil {
		return err
	}
	if err := n.leftovers(); err != nil {
		return err
	}
	for _, shard := range n.id.Logs() {
		l := newShardLog(n, shard)
		n.logs[shard], n.readers[shard] = l, &reader{l: l}
	}
	if err := n.openCluster(); err != nil {
		return err
	}
	if s := n.cfg.seams; s != nil {
		n.raft = s.raft(n)
	} else if n.raft, err = n.newDragon(logs); err != nil {
		return err
	}
	for shard, l := range n.logs {
		l.raft = n.raft.Log(shard)
	}
	n.loading.Store(int32(len(n.id.Replicas)) + 1)
	for _, shard := range sortedShards(n.id.Replicas) {
		last, err := n.startReplica(shard, n.id.Replicas[shard], true)
		if err != nil {
			return err
		}
		n.hub.Began(shard, last) // nobody has subscribed yet
	}
	if err := n.began(); err != nil {
		return err
	}
	n.loadedOne() // a node without a replica is ready to forward
	for _, l := range n.ordered() {
		l.runs = true
		n.tasks.run(l.run)
	}
	if err := n.joinCluster(); err != nil {
		return err
	}
	if n.cfg.seams != nil {
		n.loops.run(n.feedLoop)
	}
	for _, f := range []func(){
		n.checkpointLoop, n.policyLoop, n.movesLoop, n.progressLoop, n.diskLoop, n.orphanLoop, n.loneLoop, n.settleLoop,
		n.foldLoop, n.endLoop,
	} {
		n.loops.run(f)
	}
	return nil
}

// newDragon starts dragonboat on a directory.
func (n *Node) newDragon(dir string) (raft.Host, error) {
	l, err := link.New(link.Config{
		Cluster: n.id.ClusterID, Node: n.id.NodeID, Host: n.id.HostID, Token: n.cfg.Token, TLS: n.cfg.LinkTLS,
		FormatMin: rows.OldestFormat, FormatMax: rows.NewestFormat, InUse: n.formats.InUse, Raise: n.useFormat,
		Admit: n.admitPeer, Faults: n.cfg.Faults, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	host, err := dragon.Start(dragon.Config{
		Dir: dir, FS: n.cfg.RaftFS, Addr: n.cfg.RaftAddr,
		ElectionMin: n.cfg.ElectionMin, Heartbeat: n.cfg.Heartbeat, KeepEntries: n.cfg.KeepEntries,
		Identity: n.id, Registry: n.book, Link: l, Log: n.cfg.Log,
		Failed: n.failed, Leader: n.leaderUpdated,
	})
	if err != nil {
		return nil, err // and not a host that is nil
	}
	return host, nil
}

// failed ends the process: storage failed.
func (n *Node) failed(err error) { n.cfg.lastWord(n.log, err) }

// replicaHost is the node as its replicas know it.
type replicaHost struct{ n *Node }

func (h replicaHost) CheckpointSoon()        { h.n.checkpointSoon() }
func (h replicaHost) PolicyWork()            { h.n.policyWork() }
func (h replicaHost) LookAround()            { h.n.lookAround() }
func (h replicaHost) ProcessMarks() string   { return h.n.processes.marks() }
func (h replicaHost) SnapshotFormat() uint32 { return h.n.formats.Written() }

// SystemChanged makes this node resolve paths by the routes in force.
func (h replicaHost) SystemChanged(s *engine.System) {
	if s.Version() > h.n.routes.Load().Version {
		h.n.setRoutes(s.Routes(h.n.cfg.Segments))
	}
}

// Opened takes note that a replica has its state.
func (h replicaHost) Opened(m *replica.Machine) {
	n := h.n
	n.hub.Opened(m.Shard, m.Applied)
	m.Loaded.Store(true)
	if m.Awaited {
		n.loadedOne()
	}
}

// loadedOne counts the replicas that a start waits for.
func (n *Node) loadedOne() {
	if n.loading.Add(-1) == 0 {
		close(n.ready)
	}
}

// lookAround makes the node look whether the logs are placed as they should be.
func (n *Node) lookAround() {
	select {
	case n.around <- struct{}{}:
	default:
	}
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
	snapshots := make(map[uint64]uint64) // applied index at the last raft snapshot
	written := make(map[uint64]uint64)   // applied index at the last checkpoint
	if n.tasks.wait(forever, n.stop, n.ready) == 0 {
		return
	}
	for n.tasks.wait(checkpointEvery, n.stop, n.soon) != 0 {
		for _, m := range n.hosted() {
			m.ForgetPaged()
			shard, applied := m.Shard, m.AppliedIndex()
			if applied == written[shard] {
				continue
			}
			if err := m.Checkpoint(false); err != nil {
				m.Fail(err)
			}
			written[shard] = applied
			m.Evict()
			if applied-snapshots[shard] >= n.cfg.SnapshotLog {
				snapshots[shard] = applied
				n.snapshot(shard)
			}
		}
	}
}

// snapshot asks raft to take note of the state on disk and to compact the log.
func (n *Node) snapshot(shard uint64) {
	if n.snapshotKeeping(shard, n.cfg.KeepEntries) {
		n.noteVoter(shard)
	}
}

// snapshotKeeping asks for a snapshot, before which so many entries are kept, waits until
// that is done, and says whether raft took it on.
func (n *Node) snapshotKeeping(shard, entries uint64) bool {
	return n.logs[shard].raft.Snapshot(entries, n.cfg.RequestTimeout)
}

// progressLoop tells subscribers where every log is.
func (n *Node) progressLoop() {
	n.every(progressEvery, n.hub.Progress)
}

// newIncarnation tells this run of the process from every other.
func newIncarnation() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on supported systems
	}
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// NodeID is the node's name.
func (n *Node) NodeID() string { return n.id.NodeID }

// ClusterID tells the cluster from every other.
func (n *Node) ClusterID() string { return n.id.ClusterID }

// Run counts how often the node was started on its data directory, this time too: from 1 for a founder, for others from
// where other directories of the node have hardly been. It grows with each start, before anybody can see anything of
// the new run.
func (n *Node) Run() uint64 { return n.id.Earlier + n.id.Starts }
