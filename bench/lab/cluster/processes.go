package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/server"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// drainWithin is how long a node may take to drain.
	drainWithin = 20 * time.Second
	// A disk is full when it has less than so much room less than it had; filling it takes
	// more than that.
	roomLeft  = 4 << 30
	roomTaken = 6 << 30
	// token is what nodes of a laboratory know each other by.
	token = "fault-laboratory-nodes-on-loopback"
)

// Processes is a cluster of pathlockd processes on loopback.
type Processes struct {
	bin  string
	dir  string
	room uint64 // the disk's reserve, 0 when disks cannot be filled
	list []*process
}

// process is one of them.
type process struct {
	number int
	dir    string
	raft   string
	gossip string
	paused bool
	joins  bool // it founds no cluster

	mu sync.Mutex
	p  *server.Process // nil while it is down
}

// NewProcesses starts a cluster of so many nodes, with their data in dir.
func NewProcesses(ctx context.Context, bin, dir string, nodes int) (*Processes, error) {
	c := &Processes{bin: bin, dir: dir}
	if free := freeBytes(dir); free > roomLeft+roomTaken {
		c.room = free - roomLeft
	}
	for i := range nodes {
		p := &process{number: i, dir: filepath.Join(dir, strconv.Itoa(i)), joins: i > 0}
		for _, addr := range []*string{&p.raft, &p.gossip} {
			var err error
			if *addr, err = freeAddr(); err != nil {
				return nil, err
			}
		}
		c.list = append(c.list, p)
	}
	for i := range nodes {
		if err := c.Start(ctx, i); err != nil {
			c.Close()
			return nil, err
		}
	}
	if nodes == 1 {
		return c, nil
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

// args is the command line of a node.
func (c *Processes) args(p *process) []string {
	args := []string{
		"--data_dir=" + p.dir, "--listen=127.0.0.1:0", "--native_listen=127.0.0.1:0",
		"--raft_snapshot_interval_entries=400", "--raft_snapshot_min_log_entries=50",
		"--request_timeout_ms=" + strconv.FormatInt(requestTimeout.Milliseconds(), 10),
	}
	if c.room > 0 {
		args = append(args, "--disk_reserve_bytes="+strconv.FormatUint(c.room, 10))
	}
	if len(c.list) == 1 {
		return append(args, "--dev", "--web_listen=127.0.0.1:0", "--h3_listen=127.0.0.1:0")
	}
	args = append(args, "--node_id="+nodeID(p.number), "--raft_addr="+p.raft, "--gossip_addr="+p.gossip, "--internal_auth_token="+token,
		"--stability_window_secs=1", "--leader_balance_interval_secs=2")
	if !p.joins {
		return append(args, "--bootstrap=true")
	}
	seed := c.list[0]
	if p == seed {
		seed = c.list[1]
	}
	return append(args, "--seed_nodes="+seed.gossip)
}

// Nodes implements Cluster.
func (c *Processes) Nodes() int { return len(c.list) }

// Can implements Cluster.
func (c *Processes) Can(a Ability) bool {
	can := Kill | Terminate | Pause | Administer
	if c.room > 0 {
		can |= FullDisk
	}
	return can&a == a
}

func (p *process) up() *server.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p
}

func (p *process) set(up *server.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p = up
}

// Start implements Cluster.
func (c *Processes) Start(ctx context.Context, node int) error {
	p := c.list[node]
	up, err := server.Launch(ctx, c.bin, c.args(p)...)
	if err != nil {
		return fmt.Errorf("node %d: %w", node, err)
	}
	p.set(up)
	return nil
}

// Kill implements Cluster.
func (c *Processes) Kill(node int) error {
	p := c.list[node]
	up := p.up()
	if up == nil {
		return ErrDown
	}
	up.Kill()
	p.set(nil)
	p.paused = false
	return nil
}

// Terminate implements Cluster.
func (c *Processes) Terminate(ctx context.Context, node int) error {
	p := c.list[node]
	up := p.up()
	if up == nil {
		return ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	err := up.Stop(ctx)
	p.set(nil)
	if err != nil {
		return fmt.Errorf("node %d: %w\n%s", node, err, up.Log())
	}
	return nil
}

func (c *Processes) signal(node int, s syscall.Signal) error {
	up := c.list[node].up()
	if up == nil {
		return ErrDown
	}
	return syscall.Kill(up.PID(), s)
}

// Pause implements Cluster.
func (c *Processes) Pause(node int) error {
	c.list[node].paused = true
	return c.signal(node, syscall.SIGSTOP)
}

// Resume implements Cluster.
func (c *Processes) Resume(node int) error {
	c.list[node].paused = false
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
	c.list[node].joins = true
	return os.RemoveAll(c.list[node].dir)
}

// Ready implements Cluster.
func (c *Processes) Ready(ctx context.Context) error {
	for i := range c.list {
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
		up := c.list[node].up()
		if up == nil {
			return fmt.Errorf("node %d: %w", node, ErrDown)
		}
		res, err := c.once(ctx, node, &wire.Request{Op: wire.OpHealth})
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

// once asks one thing of a node.
func (c *Processes) once(ctx context.Context, node int, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s := NewSession()
	conn, err := c.Dial(ctx, node, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Ask(ctx, s.Next(), req, nil)
}

// Leaders implements Cluster.
func (c *Processes) Leaders(ctx context.Context) []int {
	for i, p := range c.list {
		if p.up() == nil || p.paused {
			continue
		}
		res, err := c.once(ctx, i, &wire.Request{Op: wire.OpTopology})
		if err == nil && res.List != nil && res.List.Topology != nil {
			return leaders(res.List.Topology)
		}
	}
	return nil
}

// Dial implements Cluster.
func (c *Processes) Dial(ctx context.Context, node int, s *Session) (Conn, error) {
	up := c.list[node].up()
	if up == nil {
		return nil, ErrDown
	}
	return dial(ctx, up.Addr, s)
}

// Digests implements Cluster: it cannot.
func (c *Processes) Digests() []history.Digest { return nil }

// Log implements Cluster.
func (c *Processes) Log(node int) string {
	if up := c.list[node].up(); up != nil {
		return up.Log()
	}
	return ""
}

// Close implements Cluster.
func (c *Processes) Close() {
	for i := range c.list {
		_ = c.Kill(i) // it may be down
	}
	_ = os.Remove(c.ballast()) // it may not be there
}
