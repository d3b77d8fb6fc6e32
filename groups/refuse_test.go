package groups

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestClusterStrangers starts nodes that are refused by the others, who go on.
func TestClusterStrangers(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, nil)
	other := newLocalCluster(t, 1, func(_ int, c *Config) { c.NodeID = "x-0" })
	fault := func(n *Node, want ...string) {
		t.Helper()
		f.until("the node is told: "+strings.Join(want, " … "), func() bool {
			err := n.cluster.gossip.Fault()
			if err == nil {
				return false
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Logf("it is told: %v", err)
					return false
				}
			}
			return true
		})
	}
	var stopped atomic.Pointer[error]
	fresh := func(change func(c *Config)) *Node {
		t.Helper()
		c := f.cfgs[1]
		c.DataDir, c.NodeID, c.RaftAddr, c.Seeds = t.TempDir(), "n-9", freeAddr(t), []string{f.gossip[0]}
		c.RaftFS, c.FS = memDisks()
		c.Fatal = func(err error) { stopped.CompareAndSwap(nil, &err) }
		change(&c)
		n, err := OpenContext(short(t), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(0) })
		return n
	}

	// A node id that is in use, with an empty directory.
	n := fresh(func(c *Config) { c.NodeID = "n-1" })
	fault(n, "n-1", "another node_id")
	f.until("the node with a clashing node_id gives up", func() bool { return stopped.Load() != nil })
	for _, want := range []string{"node_id n-1 of data directory " + n.id.HostID, "empty its data_dir " + n.cfg.DataDir,
		"a node_id that nobody has"} {
		if err := *stopped.Load(); !strings.Contains(err.Error(), want) {
			t.Errorf("it stops with %q, want %q in it", err, want)
		}
	}
	if n.takenIn() {
		t.Error("the node with a clashing node_id takes itself for adopted")
	}
	if len(n.replicasHere()) != 0 {
		t.Errorf("the node with a clashing node_id hosts %d logs", len(n.replicasHere()))
	}
	if s, ok := f.nodes[0].cluster.byName("n-1"); !ok || s.HostID != f.nodes[1].id.HostID {
		t.Errorf("node n-1 is %+v to the founder, want the one that was there", s)
	}

	// A node of another cluster, which is given this one's seeds.
	x := other.nodes[0]
	if err := x.Close(time.Second); err != nil {
		t.Fatal(err)
	}
	other.nodes[0] = nil
	other.cfgs[0].Seeds = []string{f.gossip[0]}
	x = other.start(0)
	fault(x, x.id.ClusterID, f.nodes[0].id.ClusterID)
	f.each(2, func(n *Node) {
		if _, ok := n.cluster.byName("x-0"); ok {
			t.Errorf("%s knows a node of another cluster", n.id.NodeID)
		}
	})
	if !x.WaitReady(90 * time.Second) {
		t.Error("the node of the other cluster does not serve its own")
	}

	// A copy of a node's directory, on a machine of its own.
	twin := fresh(func(c *Config) {
		id, err := datadir.Load(f.cfgs[1].DataDir)
		if err != nil {
			t.Fatal(err)
		}
		clear(id.Replicas)
		if err := id.Save(c.DataDir); err != nil {
			t.Fatal(err)
		}
		c.NodeID = "n-1"
	})
	f.until("one of the two is told", func() bool {
		for _, n := range []*Node{twin, f.nodes[1]} {
			if err := n.cluster.gossip.Fault(); err != nil &&
				strings.Contains(err.Error(), "one directory must not run twice") {
				return true
			}
		}
		return false
	})
	if err := f.nodes[0].cluster.gossip.Fault(); err != nil {
		t.Errorf("the founder is kept out: %v", err)
	}
}

// TestSwappedDirectory: a directory of one node does not start as another.
func TestSwappedDirectory(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, nil)
	if err := f.nodes[1].Close(time.Second); err != nil {
		t.Fatal(err)
	}
	f.nodes[1] = nil
	before, err := os.ReadFile(filepath.Join(f.cfgs[1].DataDir, rows.IdentityFile))
	if err != nil {
		t.Fatal(err)
	}
	c := f.cfgs[1]
	c.NodeID = "n-2"
	n, err := OpenContext(short(t), c)
	if err == nil {
		n.Close(0)
		t.Fatal("it started")
	}
	if want := "was made with node_id = n-1, the configuration says n-2"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant: %s", err, want)
	}
	if after, err := os.ReadFile(filepath.Join(f.cfgs[1].DataDir, rows.IdentityFile)); err != nil ||
		string(after) != string(before) {
		t.Errorf("the identity was overwritten (%v):\n%s", err, after)
	}
	f.start(1)
}

// TestTwoFounders: two empty nodes that are to found a cluster, each with the other as
// its seed, found none; neither of them writes anything.
func TestTwoFounders(t *testing.T) {
	t.Parallel()
	type end struct {
		n   *Node
		err error
	}
	ends := make(chan end, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // each looks for a cluster as long
	defer cancel()
	addrs := []string{freeAddr(t), freeAddr(t)}
	var cfgs []Config
	for i := range addrs {
		c := Config{
			DataDir: t.TempDir(), NodeID: []string{"n-0", "n-1"}[i], Segments: 1, GroupCount: 4, LogCount: 1,
			RaftAddr:   freeAddr(t),
			GossipAddr: addrs[i], Seeds: []string{addrs[1-i]}, Token: testToken, Bootstrap: true, OneHost: true,
		}
		c.RaftFS, c.FS = memDisks()
		cfgs = append(cfgs, c)
		go func() {
			n, err := OpenContext(ctx, c)
			ends <- end{n, err}
		}()
	}
	for range addrs {
		e := <-ends
		if e.err == nil {
			e.n.Close(0)
			t.Error("a node founded a cluster beside another that could")
		} else if !strings.Contains(e.err.Error(), "set force_bootstrap = true once") {
			t.Error(e.err)
		}
	}
	for _, c := range cfgs {
		if _, err := datadir.Load(c.DataDir); !errors.Is(err, datadir.ErrNoIdentity) {
			t.Errorf("%s: %v, want an empty directory", c.NodeID, err)
		}
	}
}

// TestLostLogs: a node whose raft logs are gone, its identity not, does not start: its
// replicas would vote again on what they have voted on. Nothing is overwritten, and it
// rejoins with an empty directory.
func TestLostLogs(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	if err := f.nodes[1].Close(time.Second); err != nil {
		t.Fatal(err)
	}
	f.nodes[1] = nil
	path := filepath.Join(f.cfgs[1].DataDir, rows.IdentityFile)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.cfgs[1].RaftFS, f.cfgs[1].FS = memDisks()
	n, err := OpenContext(short(t), f.cfgs[1])
	if err == nil {
		n.Close(0)
		t.Fatal("it started")
	}
	if want := "empty all of data_dir and start with seed_nodes"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant: %s", err, want)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the identity was overwritten (%v):\n%s", err, after)
	}
	f.cfgs[1].DataDir = t.TempDir()
	f.start(1)
	f.until("it has replicas again, under other ids", func() bool {
		here := f.nodes[1].replicasHere()
		for _, s := range here {
			if s.ID <= 3 {
				return false
			}
		}
		return len(here) == 5
	})
	f.settle(3)
}
