package groups

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/members"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReplacedDisk has a node come back with nothing, where it was: what it had is given up,
// and it gets replicas of its own anew, without a wait for the disk that it had.
func TestReplacedDisk(t *testing.T) {
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
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
// given up; the new one, on another machine, is let in at once, and used when that is taken back.
func TestReplacedDiskOfARemovedNode(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	f.wipe(w, 2)
	f.cfgs[2].RaftAddr = freeAddr(t)
	n := f.start(2)
	f.until("its name is kept for its former disk", func() bool { return errors.Is(n.cluster.gossip.Fault(), members.ErrKept) })
	c := f.rigOn(0).session()
	c.must(&wire.Request{Op: wire.OpNodeRemove, Node: "n-2"})
	f.until("it is let in", n.takenIn)
	for _, o := range f.nodes[:2] { // by itself, when it looks
		f.until("its name is free at "+o.id.NodeID, func() bool { return o.cluster.gossip.Kept("n-2", n.id.HostID) == nil })
	}
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: "n-2"})
	f.settle(3)
}

// TestRemovedAndResumedAtOnce: every node has freed the name of a node that was removed
// when that has been taken back, also one that had no time to look meanwhile, or has no
// replica of the system log.
func TestRemovedAndResumedAtOnce(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newFleet(t, 4, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.placed(4)
	out := slices.IndexFunc(f.nodes, func(n *Node) bool { return n.logs[systemShard].local.Load() == nil })
	if out < 0 {
		t.Fatal("every node has a replica of the system log")
	}
	lost := (out + 1) % 4
	f.wipe(w, lost)
	f.cfgs[lost].RaftAddr = freeAddr(t)
	n := f.start(lost)
	f.each(4, func(o *Node) {
		if o != n {
			f.until("its name is kept at "+o.id.NodeID, func() bool {
				return errors.Is(o.cluster.gossip.Kept(n.id.NodeID, n.id.HostID), members.ErrKept)
			})
		}
	})
	c := f.rigOn((out + 2) % 4).session()
	var kept []error
	for range 3 { // who is too busy to be asked is left out, once
		c.must(&wire.Request{Op: wire.OpNodeRemove, Node: n.id.NodeID, Explicit: true})
		c.must(&wire.Request{Op: wire.OpNodeResume, Node: n.id.NodeID})
		kept = nil
		f.each(4, func(o *Node) {
			if err := o.cluster.gossip.Kept(n.id.NodeID, n.id.HostID); o != n && err != nil {
				kept = append(kept, fmt.Errorf("its name is not free at %s: %w", o.id.NodeID, err))
			}
		})
		if kept == nil {
			break
		}
	}
	if kept != nil {
		t.Fatal(errors.Join(kept...))
	}
	f.until("it is let in", n.takenIn)
	f.placed(4)
}

// takenIn says that the cluster has adopted the node.
func (n *Node) takenIn() bool {
	n.seats.Lock()
	defer n.seats.Unlock()
	return n.id.Adopted
}
