package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestClusterGrowsAndShrinks goes from one node to three, to five and back to three.
func TestClusterGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, evicts)
	f.settle(3)
	// replication_factor is 3: with five nodes each log has three voters on some of them.
	f.grow(evicts)
	f.grow(evicts)
	f.each(5, func(n *Node) {
		f.until(n.id.NodeID+" holds something", func() bool { return len(n.replicasHere()) > 0 })
	})
	f.settle(3)
	// One after the other, the founder first: two at once could be the majority of a log.
	for left, i := range []int{0, 4} {
		if err := f.nodes[i].Close(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		f.nodes[i] = nil
		f.placed(4 - left)
	}
	f.each(3, func(n *Node) {
		f.until(n.id.NodeID+" holds all logs", func() bool { return len(n.replicasHere()) == 5 })
	})
	f.settle(3)
	// A node that was evicted comes back under new replica ids.
	old := f.nodes[1].logs[rows.SystemLog].local.Load()
	f.start(0)
	f.start(4)
	f.settle(3)
	if old == nil {
		t.Fatal("node 1 had no replica")
	}
	f.until("replicas that were removed are deleted", func() bool {
		hosted := 0
		for _, n := range f.nodes {
			hosted += len(n.replicasHere())
		}
		return hosted == 15
	})
}

// TestClusterRestarts stops all nodes and starts them at other addresses, without seeds.
func TestClusterRestarts(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	c := newClusterClient(f.nodes[2])
	for i := range 20 {
		c.mustAcquire(t, fmt.Sprintf("h:/r%d/x", i), "o")
	}
	for i, n := range f.nodes {
		if err := n.Close(2 * time.Second); err != nil {
			t.Fatal(err)
		}
		f.nodes[i] = nil
		f.cfgs[i].RaftAddr, f.cfgs[i].Bootstrap = freeAddr(t), false
		if i > 0 {
			f.cfgs[i].Seeds = nil
		}
	}
	// Of gossip, one stays where it was and the others move.
	f.cfgs[0].GossipAddr = strings.Clone(f.gossip[0])
	for i := range f.nodes {
		f.start(i)
	}
	f.settle(3)
	c = newClusterClient(f.nodes[1])
	for i := range 20 {
		if res := c.ask(t, &wire.Request{Op: wire.OpInspectPath, Path: fmt.Sprintf("h:/r%d/x", i)}); res.Owner != "o" {
			t.Fatalf("h:/r%d/x is held by %q", i, res.Owner)
		}
	}
}

// TestClusterRefusals starts nodes that must not join.
func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 1, nil)
	other := newLocalCluster(t, 1, func(_ int, c *Config) { c.NodeID = "x-0" })
	looks := clusterPatience // for as long as a node may look for its cluster
	refuse := func(what, want string, change func(c *Config)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), looks)
		defer cancel()
		c := f.cfgs[0]
		c.DataDir, c.NodeID, c.Bootstrap, c.RaftAddr = t.TempDir(), "n-9", false, freeAddr(t)
		c.RaftFS, c.FS = memDisks()
		c.Seeds = []string{f.gossip[0]}
		change(&c)
		n, err := OpenContext(ctx, c)
		if err == nil {
			n.Close(0)
			t.Errorf("%s: it started", what)
			return
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant: %s", what, err, want)
		}
	}
	refuse("wrong token", "has another internal_auth_token",
		func(c *Config) { c.Token = "fedcba9876543210fedcba9876543210" })
	refuse("no token", "need internal_auth_token", func(c *Config) { c.Token = "" })
	refuse("two clusters", "seed_nodes", func(c *Config) { c.Seeds = append(c.Seeds, other.gossip[0]) })
	refuse("other settings", "the cluster has log_count = 4, the configuration says 8", func(c *Config) {
		c.LogCount, c.Given = 8, []string{"log_count"}
	})
	looks = time.Second
	refuse("nobody there", "could make two", func(c *Config) { c.Bootstrap, c.Seeds = true, []string{freeAddr(t)} })
	refuse("nobody there, not to found", "looking for the cluster", func(c *Config) { c.Seeds = []string{freeAddr(t)} })
}
