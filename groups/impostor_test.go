package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// TestImpostor has a node with an empty disk wait under the name of a member that
// restarts, and so does one of the others: the member is let in again, with the replicas
// that it had.
func TestImpostor(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.EvictionWindow = time.Hour })
	f.settle(3)
	before, host := f.nodes[2].replicasHere(), f.nodes[2].id.HostID

	c := f.cfgs[2]
	c.DataDir, c.RaftAddr, c.Seeds = t.TempDir(), freeAddr(t), f.gossip[:2]
	c.RaftFS, c.FS = memDisks()
	c.Fatal = func(error) {} // it may be refused for long enough to give up
	impostor, err := OpenContext(short(t), c)
	if err != nil {
		t.Fatal(err)
	}
	defer impostor.Close(0)
	isTold := func(why error) {
		t.Helper()
		f.until("the impostor is told: "+why.Error(),
			func() bool { return errors.Is(impostor.cluster.gossip.Fault(), why) })
	}
	isTold(gossip.ErrNodeID)

	if err := f.nodes[2].Close(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	f.nodes[2] = nil
	isTold(gossip.ErrKept)
	// A node that just starts has not seen the member, and knows whose the name was.
	if err := f.nodes[1].Close(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	f.cfgs[1].GossipAddr = f.gossip[1]
	f.start(1)
	f.until("the node that just started hears of the impostor", func() bool {
		err := f.nodes[1].cluster.gossip.Kept("n-2", impostor.id.HostID)
		return errors.Is(err, gossip.ErrKept)
	})
	f.start(2)
	f.settle(3)

	for shard, s := range f.nodes[2].replicasHere() {
		if before[shard].ID != s.ID {
			t.Errorf("log %d has replica %d on the member, it had %d", shard, s.ID, before[shard].ID)
		}
	}
	f.each(3, func(n *Node) {
		if s, ok := n.cluster.byName("n-2"); !ok || s.HostID != host || !s.Alive {
			t.Errorf("to %s the name is of %s (alive: %v), want %s", n.id.NodeID, s.HostID, s.Alive, host)
		}
	})
	if n := len(impostor.replicasHere()); n != 0 || impostor.takenIn() {
		t.Errorf("the impostor hosts %d logs and takes itself for adopted: %v", n, impostor.takenIn())
	}
}
