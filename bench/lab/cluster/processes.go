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
	"github.com/pathlockd/pathlockd/bench/server"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// drainWithin is how long a node may take to drain.
	drainWithin = 20 * time.Second
	// A disk is full when it has less than so much room less than it had; filling it takes
	// more than that.
	roomLeft  = 4 << 30
	roomTaken = 6 << 30
	// dialWithin is how long a connection may take.
	dialWithin = 2 * time.Second
)

// Processes is a cluster of pathlockd processes on loopback.
type Processes struct {
	cluster *server.Cluster
	dir     string
	room    uint64 // the disk's reserve, 0 when disks cannot be filled
	paused  []bool
}

// NewProcesses starts a cluster of so many nodes, with their data in dir.
func NewProcesses(ctx context.Context, bin, dir string, nodes int) (*Processes, error) {
	c := &Processes{dir: dir, paused: make([]bool, nodes)}
	settings := []string{
		"raft_snapshot_interval_entries = 400", "raft_snapshot_min_log_entries = 50",
		fmt.Sprintf("request_timeout_ms = %d", requestTimeout.Milliseconds()),
		"stability_window_secs = 1", "leader_balance_interval_secs = 2",
	}
	if free := freeBytes(dir); free > roomLeft+roomTaken {
		c.room = free - roomLeft
		settings = append(settings, fmt.Sprintf("disk_reserve_bytes = %d", c.room))
	}
	var err error
	if c.cluster, err = server.StartCluster(ctx, server.Spec{Bin: bin, Dir: dir, Settings: settings}, nodes); err != nil {
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
	can := Kill | Terminate | Pause | Administer
	if c.room > 0 {
		can |= FullDisk
	}
	return can&a == a
}

// Start implements Cluster.
func (c *Processes) Start(ctx context.Context, node int) error { return c.cluster.Start(ctx, node) }

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
func (c *Processes) Pause(node int) error {
	c.paused[node] = true
	return c.signal(node, syscall.SIGSTOP)
}

// Resume implements Cluster.
func (c *Processes) Resume(node int) error {
	c.paused[node] = false
	return c.signal(node, syscall.SIGCONT)
}

// Between implements Cluster: it cannot.
func (c *Processes) Between(int, int, Weather) {}

// Calm implements Cluster.
func (c *Processes) Calm() {}

// Step implements Cluster: it cannot.
func (c *Processes) Step(int, time.Duration) {}

func (c *Processes) ballast() string { return filepath.Join(c.dir, "ballast") }

// Fill implements Cluster: all nodes are on one disk, and so it is full for all.
func (c *Processes) Fill(int) error { return takeRoom(c.ballast(), roomTaken) }

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
		res, err := once(ctx, c, node, &wire.Request{Op: wire.OpHealth})
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
		res, err := once(ctx, c, i, &wire.Request{Op: wire.OpTopology})
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
