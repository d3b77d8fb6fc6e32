package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

// ElectionMost is the longest election timeout of nodes in this process: raft draws one to two times electionMin.
const ElectionMost = 2 * electionMin

// Times of nodes in this process: short, so that a run sees many elections.
const (
	electionMin = time.Second
	heartbeat   = 150 * time.Millisecond
	// requestTimeout is how long a node tries; clients have more patience than that.
	requestTimeout = 4 * time.Second
	readyWithin    = time.Minute
	askEvery       = 20 * time.Millisecond
	// evictAfter is longer than anything lasts that is done to a node.
	evictAfter = 8 * time.Second
	// breakWithin is how long a disk that is to fail is waited for: the state is written
	// every few seconds.
	breakWithin = 12 * time.Second
	logs        = 4
	// token is what the nodes know each other by.
	token = "fault-laboratory-nodes-on-loopback"
	// Clocks of neighbours are so far apart, and run faster or slower by up to so much.
	apart = 7 * time.Hour
	drift = 0.01
)

// Nodes is a cluster in this process, on disks in memory that lose what was not synced
// when a node loses its power, with clocks that can be set.
type Nodes struct {
	dir     string
	network *link.NetworkFaults
	set     []func(*groups.Config)
	next    int // number of the next node
	mu      sync.RWMutex
	list    []*member
}

// NewNodes starts a cluster of so many nodes. Its few files are in dir; the luck of its
// chance in the network comes from the seed. What set changes overrides the laboratory's own configuration.
func NewNodes(ctx context.Context, dir string, nodes int, seed uint64, set ...func(*groups.Config)) (*Nodes, error) {
	n := &Nodes{dir: dir, network: link.NewNetworkFaults(seed), set: set}
	for range nodes {
		if err := n.add(); err != nil {
			return nil, err
		}
	}
	for i := range nodes {
		if err := n.Start(ctx, i); err != nil {
			n.Close()
			return nil, err
		}
	}
	if err := n.grown(ctx); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// add makes another node, that is down.
func (n *Nodes) add() error {
	i := n.next
	m := &member{
		number: i, of: n, raft: gvfs.NewStrictMem(), state: vfs.NewCrashableMem(), network: n.network,
		clock: &clock{start: time.Now(), rate: 1 + drift*float64(i%3-1), off: apart * time.Duration(i%3-1)},
	}
	m.breaker.frost = &m.frost
	m.room.Store(plenty)
	if err := n.configure(m); err != nil {
		return err
	}
	n.next++
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, m)
	return nil
}

// members are those that there are.
func (n *Nodes) members() []*member {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.list
}

// seeds are the gossip addresses of all but one.
func (n *Nodes) seeds(but *member) (addrs []string) {
	for _, m := range n.members() {
		if m != but {
			addrs = append(addrs, m.cfg.GossipAddr)
		}
	}
	return addrs
}

// grown waits until every log has as many voters as it should: fewer nodes are a majority
// of less.
func (n *Nodes) grown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return Healthy(ctx, n, 0)
}

// configure makes a node's configuration. The first founds a cluster, others join it.
func (n *Nodes) configure(m *member) error {
	for _, addr := range []*string{&m.cfg.RaftAddr, &m.cfg.GossipAddr} {
		var err error
		if *addr, err = server.FreeAddr(); err != nil {
			return err
		}
	}
	m.cfg = groups.Config{
		DataDir: filepath.Join(n.dir, strconv.Itoa(m.number)), NodeID: nodeID(m.number), Bootstrap: m.number == 0,
		Segments: 1, GroupCount: 16, LogCount: logs, RaftAddr: m.cfg.RaftAddr, GossipAddr: m.cfg.GossipAddr,
		RequestTimeout: requestTimeout, ElectionMin: electionMin, Heartbeat: heartbeat,
		SnapshotLog: 400, KeepEntries: 50, // so that replicas fall behind what is kept
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})).With("node",
			m.number),
		Clock: m.clock, DiskReserve: reserve, Free: m.free, Token: token, OneHost: true, Faults: m,
		NativeAddr:      "127.0.0.1:" + strconv.Itoa(1+m.number),
		StabilityWindow: 300 * time.Millisecond, EvictionWindow: evictAfter, LeaderBalance: time.Second,
		Fatal: func(err error) {
			m.silence()
			m.mu.Lock()
			defer m.mu.Unlock()
			select {
			case m.broke <- err:
			default:
			}
		},
	}
	m.cfg.Seeds = n.seeds(m)
	for _, set := range n.set {
		set(&m.cfg)
	}
	return os.MkdirAll(m.cfg.DataDir, 0o700)
}

func nodeID(i int) string { return "pathlockd-" + strconv.Itoa(i) }

// Nodes implements Cluster.
func (n *Nodes) Nodes() int { return len(n.members()) }

// NodeID implements Cluster.
func (n *Nodes) NodeID(node int) string { return nodeID(n.members()[node].number) }

// Can implements Cluster.
func (n *Nodes) Can(a Ability) bool {
	return (Kill|Terminate|Pause|StepClock|FullDisk|FailDisk|Compare|Partition|Administer|Grow|Refound|Configure)&a == a
}

// Start implements Cluster.
func (n *Nodes) Start(ctx context.Context, node int) error {
	m := n.members()[node]
	if up, _ := m.up(); up != nil {
		return fmt.Errorf("start node %d: it is up", node)
	}
	m.mu.Lock()
	m.gone, m.broke = make(chan struct{}), make(chan error, 1)
	m.cfg.RaftFS, m.cfg.FS = raftBreaker{m.raft, &m.breaker}, errorfs.Wrap(m.state, stateBreaker{&m.breaker})
	m.dead.Store(false)
	m.mu.Unlock()
	up, err := groups.Open(m.cfg)
	if err != nil {
		return fmt.Errorf("start node %d: %w", node, err)
	}
	m.mu.Lock()
	m.node = up
	m.mu.Unlock()
	return n.served(ctx, m)
}

// Configure implements Cluster.
func (n *Nodes) Configure(node, queued int) { n.members()[node].cfg.MaxQueued = queued }

// served waits until a node serves.
func (n *Nodes) served(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		up, _ := m.up()
		if up == nil {
			return ErrDown
		}
		ok, detail := up.Health()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d does not serve: %s: %w", m.number, detail, ctx.Err())
		case <-again.C:
		}
	}
}

// Ready implements Cluster.
func (n *Nodes) Ready(ctx context.Context) error {
	for _, m := range n.members() {
		if err := n.served(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Kill implements Cluster: the power goes, and with it what was not synced.
func (n *Nodes) Kill(node int) error {
	m := n.members()[node]
	up, _ := m.up()
	if up == nil {
		return ErrDown
	}
	m.silence()
	m.frost.melt(false)
	m.breaker.arm(nothing)
	err := up.Close(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.node = nil
	m.raft.ResetToSyncedState()
	m.raft.SetIgnoreSyncs(false)
	return errors.Join(err, writeFiles(m.cfg.DataDir, m.files))
}

// Terminate implements Cluster.
func (n *Nodes) Terminate(_ context.Context, node int) error {
	m := n.members()[node]
	up, gone := m.up()
	if up == nil {
		return ErrDown
	}
	m.frost.melt(true)
	err := up.Close(requestTimeout)
	m.mu.Lock()
	m.node = nil
	m.mu.Unlock()
	if !m.dead.Swap(true) {
		close(gone)
	}
	return err
}

// Between implements Cluster.
func (n *Nodes) Between(from, to int, w NetworkFault) {
	n.network.Set(n.NodeID(from), n.NodeID(to), link.Rule{
		Block: w.Block, Drop: w.Drop, Cut: w.Cut, Duplicate: w.Duplicate,
		Delay: w.Delay, DelayMin: w.DelayMin, DelayMax: w.DelayMax,
	})
}

// Calm implements Cluster.
func (n *Nodes) HealNetwork() { n.network.Clear() }

// Step implements Cluster.
func (n *Nodes) Step(node int, by time.Duration) { n.members()[node].clock.step(by) }

// BreakDisk implements Cluster: a sync or a write of one of its two disks fails, each in
// turn, and the node is down as its process would be.
func (n *Nodes) BreakDisk(node int) error {
	m := n.members()[node]
	if up, _ := m.up(); up == nil {
		return ErrDown
	}
	m.breaks++
	m.breaker.arm(broken(1 + (m.breaks+node)%int(ways-1)))
	late := time.NewTimer(breakWithin)
	defer late.Stop()
	select {
	case err := <-m.broke:
		_ = err // it was told to break
	case <-late.C: // nothing was written
	}
	return n.Kill(node)
}

// Replace kills a node and gives it empty disks.
func (n *Nodes) Replace(node int) error {
	m := n.members()[node]
	if err := n.Kill(node); err != nil {
		return err
	}
	return n.blank(m)
}

// blank gives a node that is down empty disks. If it founded its cluster once, now it joins.
func (n *Nodes) blank(m *member) error {
	m.mu.Lock()
	m.raft, m.state = gvfs.NewStrictMem(), vfs.NewCrashableMem()
	m.mu.Unlock()
	m.cfg.Bootstrap, m.cfg.Seeds = false, n.seeds(m)
	return errors.Join(os.RemoveAll(m.cfg.DataDir), os.MkdirAll(m.cfg.DataDir, 0o700))
}

// Leaders implements Cluster.
func (n *Nodes) Leaders(context.Context) []int {
	for _, m := range n.members() {
		if frozen, _ := m.frost.frozen(); frozen {
			continue
		}
		if up, _ := m.up(); up != nil {
			t, stop := up.Topology(nil)
			if stop != nil {
				stop()
			}
			return n.numbers(leaders(t))
		}
	}
	return nil
}

// numbers makes the numbers in nodes' names those that the nodes have now, -1 for one that
// there is not.
func (n *Nodes) numbers(names []int) []int {
	list := n.members()
	for i, name := range names {
		names[i] = slices.IndexFunc(list, func(m *member) bool { return m.number == name })
	}
	return names
}

func leaders(t *wire.Topology) (nodes []int) {
	for _, id := range t.Leaders {
		i, err := strconv.Atoi(strings.TrimPrefix(id, "pathlockd-"))
		if err != nil {
			i = -1
		}
		nodes = append(nodes, i)
	}
	return nodes
}

// Dial implements Cluster.
func (n *Nodes) Dial(_ context.Context, node int, s *session.Session) (Conn, error) {
	list := n.members()
	if node >= len(list) {
		return nil, ErrDown // it went for good
	}
	up, gone := list[node].up()
	if up == nil {
		return nil, ErrDown
	}
	return newDirect(up, gone, &list[node].frost, s), nil
}

// Digests implements Cluster.
func (n *Nodes) Digests() (all []history.Digest) {
	for _, m := range n.members() {
		if up, _ := m.up(); up != nil {
			for _, d := range up.Digests() {
				all = append(all, history.Digest{Node: m.number, Log: d.Log, Index: d.Index, Sum: d.Sum})
			}
		}
	}
	return slices.Clip(all)
}

// Log implements Cluster.
func (n *Nodes) Log(int) string { return "" }

// Close implements Cluster.
func (n *Nodes) Close() {
	for i, m := range n.members() {
		if up, _ := m.up(); up != nil {
			_ = n.Kill(i) // nothing is kept of it
		}
	}
}
