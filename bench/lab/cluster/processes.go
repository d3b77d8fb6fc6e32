package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// drainWithin is how long a node may take to drain.
	drainWithin = 20 * time.Second
	// lowStep is the least step of a ladder: others use the disk, too. alone is what is taken
	// when there is one node, and left is left then at least.
	lowStep = 3 << 30
	alone   = 6 << 30
	left    = 4 << 30
	// dialWithin is how long a connection may take.
	dialWithin = 2 * time.Second
)

// Processes is a cluster of pathlockd processes on loopback.
type Processes struct {
	cluster *server.Cluster
	dir     string
	ladder  ladder
	paused  []bool
	queued  []int // max_queued_paths_per_group of each, 0: as it comes
}

// ladder is how full the one disk that all nodes are on must be for each to run short: the
// first does so alone, a step later the second with it, and in the end all.
type ladder struct {
	free  uint64 // at the start
	first uint64 // what is to be taken for the first
	step  uint64 // 0: there is no room for a ladder
}

// newLadder takes a third of what is free, of several nodes up to two: one that was short has room
// again when there is a quarter more than its reserve (groups/room.go).
func newLadder(free uint64, nodes int) ladder {
	l := ladder{free: free, first: free / 3, step: free / 3 / uint64(max(nodes-1, 2))}
	if nodes == 1 {
		l.first, l.step = alone, alone
		free -= min(free, left)
	}
	if l.step < lowStep || free < l.first {
		l.step = 0
	}
	return l
}

// taken is how much has to be taken of the disk for a node to be short.
func (l ladder) taken(node int) uint64 { return l.first + uint64(node)*l.step }

// reserve is a node's disk_reserve_bytes: it is short a little before so much is taken.
func (l ladder) reserve(node int) uint64 { return l.free - l.taken(node) + l.step/3 }

// NewProcesses starts a cluster of so many nodes, with their data in dir.
func NewProcesses(ctx context.Context, bin, dir string, nodes int) (*Processes, error) {
	c := &Processes{dir: dir, paused: make([]bool, nodes), queued: make([]int, nodes)}
	settings := []string{
		"raft_snapshot_interval_entries = 400", "raft_snapshot_min_log_entries = 50",
		fmt.Sprintf("request_timeout_ms = %d", requestTimeout.Milliseconds()),
		"stability_window_secs = 1", "leader_balance_interval_secs = 2",
	}
	c.ladder = newLadder(freeBytes(dir), nodes)
	own := func(node int) (lines []string) {
		if c.ladder.step > 0 {
			lines = append(lines, fmt.Sprintf("disk_reserve_bytes = %d", c.ladder.reserve(node)))
		}
		if q := c.queued[node]; q > 0 {
			lines = append(lines, fmt.Sprintf("max_queued_paths_per_group = %d", q))
		}
		return lines
	}
	var err error
	if c.cluster, err = server.StartCluster(ctx, server.Spec{Bin: bin, Dir: dir, Settings: settings, Own: own},
		nodes); err != nil {
		return nil, err
	}
	// Until every log has all its voters, fewer nodes are a majority of less.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := Healthy(ctx, c, 0); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Nodes implements Cluster.
func (c *Processes) Nodes() int { return c.cluster.Nodes() }

// Can implements Cluster.
func (c *Processes) Can(a Ability) bool {
	can := Kill | Terminate | Pause | Administer | Configure
	if c.ladder.step > 0 {
		can |= FullDisk
	}
	return can&a == a
}

// Start implements Cluster.
func (c *Processes) Start(ctx context.Context, node int) error { return c.cluster.Start(ctx, node) }

// Configure implements Cluster.
func (c *Processes) Configure(node, queued int) { c.queued[node] = queued }

// Kill implements Cluster.
func (c *Processes) Kill(node int) error {
	if c.cluster.Node(node) == nil {
		return ErrDown
	}
	c.cluster.Kill(node)
	c.paused[node] = false
	return nil
}

// Terminate implements Cluster.
func (c *Processes) Terminate(ctx context.Context, node int) error {
	if c.cluster.Node(node) == nil {
		return ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	return c.cluster.Stop(ctx, node)
}

func (c *Processes) signal(node int, s syscall.Signal) error {
	up := c.cluster.Node(node)
	if up == nil {
		return ErrDown
	}
	return syscall.Kill(up.PID(), s)
}

// Pause implements Cluster.
func (c *Processes) Pause(node int, _ time.Duration) error {
	c.paused[node] = true
	return c.signal(node, syscall.SIGSTOP)
}

// Resume implements Cluster.
func (c *Processes) Resume(node int) error {
	c.paused[node] = false
	return c.signal(node, syscall.SIGCONT)
}

// Between implements Cluster: it cannot.
func (c *Processes) Between(int, int, NetworkFault) {}

// Calm implements Cluster.
func (c *Processes) HealNetwork() {}

// Step implements Cluster: it cannot.
func (c *Processes) Step(int, time.Duration) {}

func (c *Processes) ballast() string { return filepath.Join(c.dir, "ballast") }

// Fill implements Cluster: the disk is full for the node and those before it. So it is full
// for the first alone, for some, or for all.
func (c *Processes) Fill(node int) error { return takeRoom(c.ballast(), int64(c.ladder.taken(node))) }

// Empty implements Cluster.
func (c *Processes) Empty(int) error { return os.Remove(c.ballast()) }

// BreakDisk implements Cluster: it cannot.
func (c *Processes) BreakDisk(int) error { return errCannot }

// Replace implements Cluster.
func (c *Processes) Replace(node int) error {
	if err := c.Kill(node); err != nil {
		return err
	}
	return c.cluster.Replace(node)
}

// Ready implements Cluster.
func (c *Processes) Ready(ctx context.Context) error {
	for i := range c.Nodes() {
		if err := c.served(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// served waits until a node is healthy.
func (c *Processes) served(ctx context.Context, node int) error {
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		up := c.cluster.Node(node)
		if up == nil {
			return fmt.Errorf("node %d: %w", node, ErrDown)
		}
		res, err := Ask(ctx, c, node, orderWithin, &wire.Request{Op: wire.OpHealth})
		if err == nil && res.Flag {
			return nil
		}
		select {
		case <-up.Ended():
			return fmt.Errorf("node %d ended by itself:\n%s", node, up.Log())
		case <-ctx.Done():
			return fmt.Errorf("node %d does not serve (%v): %w\n%s", node, res, errors.Join(err, ctx.Err()), up.Log())
		case <-again.C:
		}
	}
}

// Leaders implements Cluster.
func (c *Processes) Leaders(ctx context.Context) []int {
	for i, paused := range c.paused {
		if paused || c.cluster.Node(i) == nil {
			continue
		}
		res, err := Ask(ctx, c, i, orderWithin, &wire.Request{Op: wire.OpTopology})
		if err == nil && res.List != nil && res.List.Topology != nil {
			return leaders(res.List.Topology)
		}
	}
	return nil
}

// Dial implements Cluster.
func (c *Processes) Dial(ctx context.Context, node int, s *session.Session) (Conn, error) {
	up := c.cluster.Node(node)
	if up == nil {
		return nil, ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return s.Dial(ctx, up.Addr)
}

// Digests implements Cluster: it cannot.
func (c *Processes) Digests() []history.Digest { return nil }

// Log implements Cluster.
func (c *Processes) Log(node int) string {
	if up := c.cluster.Node(node); up != nil {
		return up.Log()
	}
	return ""
}

// Close implements Cluster.
func (c *Processes) Close() {
	c.cluster.Close()
	_ = os.Remove(c.ballast()) // it may not be there
}
