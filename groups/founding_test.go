package groups

import (
	"net"
	"testing"

	"github.com/pathlockd/pathlockd/groups/datadir"
)

// TestFounders: who is to found a cluster and is given seeds joins the one that they
// belong to; where none answers, force_bootstrap has it found one.
func TestFounders(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 1, nil)
	found := func(change func(c *Config)) *Node {
		t.Helper()
		c := f.cfgs[0]
		c.DataDir, c.NodeID, c.Bootstrap, c.RaftAddr = t.TempDir(), "n-1", true, freeAddr(t)
		c.RaftFS, c.FS = memDisks()
		change(&c)
		n, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(0) })
		return n
	}
	n := found(func(c *Config) { c.Seeds, c.ForceBootstrap = []string{f.gossip[0]}, true })
	if n.ClusterID() != f.nodes[0].ClusterID() || !n.id.Joined {
		t.Errorf("it founded cluster %s beside %s", n.ClusterID(), f.nodes[0].ClusterID())
	}
	n = found(func(c *Config) { c.Seeds, c.ForceBootstrap = []string{freeAddr(t)}, true })
	if n.ClusterID() == f.nodes[0].ClusterID() || n.id.Joined || len(n.replicasHere()) != 5 {
		t.Errorf("no seed answers, and it founded nothing: %+v", n.id)
	}
}

// TestFirstStart: a first start that fails before the node has its raft logs is counted,
// and not taken for one that had them.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := Config{
		DataDir: t.TempDir(), NodeID: "n-0", Bootstrap: true, Segments: 1, GroupCount: 4, LogCount: 1,
		RaftAddr: taken.Addr().String(), GossipAddr: "127.0.0.1:0", Token: testToken,
	}
	c.RaftFS, c.FS = memDisks()
	if n, err := Open(c); err == nil {
		n.Close(0)
		t.Fatal("it started on a port that is taken")
	}
	id, err := datadir.Load(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if id.Starts != 1 || id.Began {
		t.Errorf("after a start that failed: %d starts, began %v", id.Starts, id.Began)
	}
	c.RaftAddr = freeAddr(t)
	c.RaftFS, c.FS = memDisks()
	n, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(0)
	again, err := datadir.Load(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if n.Run() != 2 || again.Starts != 2 || !again.Began || n.ClusterID() != id.ClusterID {
		t.Errorf("after one that did not: %d starts, %+v", n.Run(), again)
	}
}
