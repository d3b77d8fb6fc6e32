package groups

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/members"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReplacedDisk has a node come back with nothing: what it had is given up, and it
// gets replicas of its own anew.
func TestReplacedDisk(t *testing.T) {
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) { c.Faults = w })
	f.settle(3)
	f.wipe(w, 2)
	began := time.Now()
	f.start(2)
	f.settle(3)
	t.Logf("whole again after %v", time.Since(began).Round(100*time.Millisecond))
	for _, n := range f.nodes[:2] {
		for _, m := range n.hosted() {
			if ms, err := n.membership(m.shard); err == nil && len(ms.Nodes) != 3 {
				t.Errorf("log %d has the voters %v", m.shard, ms.Nodes)
			}
		}
	}
}

// wipe kills a node and gives it an empty disk.
func (f *fleet) wipe(w *network, i int) {
	f.t.Helper()
	f.kill(w, i)
	c := &f.cfgs[i]
	if err := errors.Join(os.RemoveAll(c.DataDir), os.MkdirAll(c.DataDir, 0o700)); err != nil {
		f.t.Fatal(err)
	}
	c.RaftFS, c.FS = memDisks()
	w.set(c.NodeID, false)
}

// TestReplacedDiskOfARemovedNode: nobody waits for the former disk of a node that was
// given up; the new one is let in at once, and used when that is taken back.
func TestReplacedDiskOfARemovedNode(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	f.wipe(w, 2)
	n := f.start(2)
	f.until("its name is kept for its former disk", func() bool { return errors.Is(n.cluster.gossip.Fault(), members.ErrKept) })
	c := f.rigOn(0).session()
	c.must(&wire.Request{Op: wire.OpNodeRemove, Node: "n-2"})
	f.until("it is let in", n.takenIn)
	// Each node hears of the mark when it looks: one that is taken back before that leaves
	// the name kept there until its time is over.
	for _, o := range f.nodes[:2] {
		f.until("its name is free at "+o.id.NodeID, func() bool { return o.cluster.gossip.Kept("n-2", n.id.HostID) == nil })
	}
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: "n-2"})
	f.settle(3)
}

// takenIn says that the cluster has adopted the node.
func (n *Node) takenIn() bool {
	n.seats.Lock()
	defer n.seats.Unlock()
	return n.id.Adopted
}
