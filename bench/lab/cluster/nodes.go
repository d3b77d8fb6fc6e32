package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/wire"
)

// Times of nodes in this process: short, so that a run sees many elections.
const (
	electionMin = 300 * time.Millisecond
	heartbeat   = 50 * time.Millisecond
	// requestTimeout is how long a node tries; clients have more patience than that.
	requestTimeout = 4 * time.Second
	readyWithin    = 30 * time.Second
	askEvery       = 20 * time.Millisecond
	// evictAfter is longer than anything lasts that is done to a node.
	evictAfter = 8 * time.Second
	// breakWithin is how long a disk that is to fail is waited for: the state is written
	// every few seconds.
	breakWithin = 12 * time.Second
	logs        = 4
	// Clocks of neighbours are so far apart, and run faster or slower by up to so much.
	apart = 7 * time.Hour
	drift = 0.01
)

// Nodes is a cluster in this process, on disks in memory that lose what was not synced
// when a node loses its power, with clocks that can be set.
type Nodes struct {
	dir     string
	weather *link.Weather
	list    []*member
}

// member is one of them.
type member struct {
	number  int
	cfg     groups.Config
	clock   *clock
	weather *link.Weather
	breaker breaker
	breaks  int         // how often its disks failed
	dead    atomic.Bool // nothing that it sends arrives

	mu    sync.Mutex
	raft  *gvfs.MemFS
	state *vfs.MemFS
	node  *groups.Node      // nil while it is down
	gone  chan struct{}     // closed when node is to be heard no more
	broke chan error        // that its disk failed
	files map[string][]byte // of its data directory, when it died
}

// Outgoing implements link.Faults: what a dead node sends is lost, and of others what the
// weather says.
func (m *member) Outgoing(p link.Passage) link.Fate {
	if m.dead.Load() {
		return link.Fate{Drop: true}
	}
	return m.weather.Outgoing(p)
}

// silence makes the node unheard, and its disks keep what they have and no more. It is
// Config.Fatal too.
func (m *member) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead.Swap(true) {
		return
	}
	close(m.gone)
	// The raft log last: the others may be behind it, and never ahead of it.
	m.state = m.state.CrashClone(vfs.CrashCloneCfg{})
	m.files = readFiles(m.cfg.DataDir)
	m.raft.SetIgnoreSyncs(true)
}

// readFiles reads the few files that a node has on the real disk: who it is, and who the
// others are.
func readFiles(dir string) map[string][]byte {
	files := make(map[string][]byte)
	list, err := os.ReadDir(dir)
	if err != nil {
		return files // it was never started
	}
	for _, f := range list {
		if b, err := os.ReadFile(filepath.Join(dir, f.Name())); err == nil {
			files[f.Name()] = b
		}
	}
	return files
}

// writeFiles makes the files what they were.
func writeFiles(dir string, files map[string][]byte) error {
	for name := range readFiles(dir) {
		if _, there := files[name]; !there {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// NewNodes starts a cluster of so many nodes. Its few files are in dir; the luck of its
// weather comes from the seed.
func NewNodes(ctx context.Context, dir string, nodes int, seed uint64) (*Nodes, error) {
	n := &Nodes{dir: dir, weather: link.NewWeather(seed)}
	for i := range nodes {
		m := &member{
			number: i, raft: gvfs.NewStrictMem(), state: vfs.NewCrashableMem(), weather: n.weather,
			clock: &clock{start: time.Now(), rate: 1 + drift*float64(i%3-1), off: apart * time.Duration(i%3-1)},
		}
		if err := n.configure(m); err != nil {
			return nil, err
		}
		n.list = append(n.list, m)
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

// grown waits until every log has as many voters as it should: fewer nodes are a majority
// of less.
func (n *Nodes) grown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return Healthy(ctx, n, 0)
}

// configure makes a node's configuration. All nodes but the first join the first.
func (n *Nodes) configure(m *member) error {
	for _, addr := range []*string{&m.cfg.RaftAddr, &m.cfg.GossipAddr} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			return err
		}
	}
	m.cfg = groups.Config{
		DataDir: filepath.Join(n.dir, strconv.Itoa(m.number)), NodeID: nodeID(m.number), Bootstrap: m.number == 0,
		Segments: 1, GroupCount: 16, LogCount: logs, RaftAddr: m.cfg.RaftAddr, GossipAddr: m.cfg.GossipAddr,
		RequestTimeout: requestTimeout, ElectionMin: electionMin, Heartbeat: heartbeat,
		SnapshotLog: 400, KeepEntries: 50, // so that replicas fall behind what is kept
		Clock: m.clock, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})).With("node", m.number),
		Token: token, OneHost: true, Faults: m, NativeAddr: "127.0.0.1:" + strconv.Itoa(1+m.number),
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
	if m.number > 0 {
		m.cfg.Seeds = []string{n.list[0].cfg.GossipAddr}
	}
	return os.MkdirAll(m.cfg.DataDir, 0o700)
}

func nodeID(i int) string { return "pathlockd-" + strconv.Itoa(i) }

// freeAddr answers an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Nodes implements Cluster.
func (n *Nodes) Nodes() int { return len(n.list) }

// Can implements Cluster.
func (n *Nodes) Can(a Ability) bool {
	return (Kill|Terminate|StepClock|FailDisk|Compare|Partition|Administer)&a == a
}

func (m *member) up() (*groups.Node, chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node, m.gone
}

// Start implements Cluster.
func (n *Nodes) Start(ctx context.Context, node int) error {
	m := n.list[node]
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
	for _, m := range n.list {
		if err := n.served(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Kill implements Cluster: the power goes, and with it what was not synced.
func (n *Nodes) Kill(node int) error {
	m := n.list[node]
	up, _ := m.up()
	if up == nil {
		return ErrDown
	}
	m.silence()
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
	m := n.list[node]
	up, gone := m.up()
	if up == nil {
		return ErrDown
	}
	err := up.Close(requestTimeout)
	m.mu.Lock()
	m.node = nil
	m.mu.Unlock()
	if !m.dead.Swap(true) {
		close(gone)
	}
	return err
}

// Pause implements Cluster: it cannot.
func (n *Nodes) Pause(int) error { return errCannot }

// Resume implements Cluster: it cannot.
func (n *Nodes) Resume(int) error { return errCannot }

// Between implements Cluster.
func (n *Nodes) Between(from, to int, w Weather) {
	n.weather.Set(nodeID(from), nodeID(to), link.Rule{
		Block: w.Block, Drop: w.Drop, Cut: w.Cut, Duplicate: w.Duplicate, Delay: w.Delay, DelayMin: w.DelayMin, DelayMax: w.DelayMax,
	})
}

// Calm implements Cluster.
func (n *Nodes) Calm() { n.weather.Clear() }

// Step implements Cluster.
func (n *Nodes) Step(node int, by time.Duration) { n.list[node].clock.step(by) }

// Fill implements Cluster: it cannot.
func (n *Nodes) Fill(int) error { return errCannot }

// Empty implements Cluster: it cannot.
func (n *Nodes) Empty(int) error { return errCannot }

// BreakDisk implements Cluster: a sync or a write of one of its two disks fails, each in
// turn, and the node is down as its process would be.
func (n *Nodes) BreakDisk(node int) error {
	m := n.list[node]
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
	m := n.list[node]
	if err := n.Kill(node); err != nil {
		return err
	}
	m.mu.Lock()
	m.raft, m.state = gvfs.NewStrictMem(), vfs.NewCrashableMem()
	m.mu.Unlock()
	if err := os.RemoveAll(m.cfg.DataDir); err != nil {
		return err
	}
	if node == 0 { // it found its cluster once; now it joins it
		m.cfg.Bootstrap, m.cfg.Seeds = false, []string{n.list[1].cfg.GossipAddr}
	}
	return os.MkdirAll(m.cfg.DataDir, 0o700)
}

// Leaders implements Cluster.
func (n *Nodes) Leaders(context.Context) []int {
	for _, m := range n.list {
		if up, _ := m.up(); up != nil {
			t, stop := up.Topology(nil)
			if stop != nil {
				stop()
			}
			return leaders(t)
		}
	}
	return nil
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
func (n *Nodes) Dial(_ context.Context, node int, s *Session) (Conn, error) {
	up, gone := n.list[node].up()
	if up == nil {
		return nil, ErrDown
	}
	return newDirect(up, gone, s), nil
}

// Digests implements Cluster.
func (n *Nodes) Digests() (all []history.Digest) {
	for _, m := range n.list {
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
	for i, m := range n.list {
		if up, _ := m.up(); up != nil {
			_ = n.Kill(i) // nothing is kept of it
		}
	}
}
