package groups

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReplacedDisk has a node come back with nothing, where it was: what it had is given up,
// and it gets replicas of its own anew, without a wait for the disk that it had.
func TestReplacedDisk(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	f.wipe(w, 2)
	began := time.Now()
	f.start(2)
	f.settle(3)
	t.Logf("whole again after %v", time.Since(began).Round(100*time.Millisecond))
	for _, n := range f.nodes[:2] {
		for _, m := range n.hosted() {
			if ms, err := n.membership(m.Shard); err == nil && len(ms.Nodes) != 3 {
				t.Errorf("log %d has the voters %v", m.Shard, ms.Nodes)
			}
		}
	}
}

// wipe kills a node and gives it an empty disk.
func (f *localCluster) wipe(w *network, i int) {
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
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	f.wipe(w, 2)
	f.cfgs[2].RaftAddr = freeAddr(t)
	n := f.start(2)
	f.until("its name is kept for its former disk",
		func() bool { return errors.Is(n.cluster.gossip.Fault(), gossip.ErrKept) })
	c := f.rigOn(0).session()
	c.must(&wire.Request{Op: wire.OpNodeRemove, Node: "n-2"})
	f.until("it is let in", n.takenIn)
	for _, o := range f.nodes[:2] { // by itself, when it looks
		f.until("its name is free at "+o.id.NodeID,
			func() bool { return o.cluster.gossip.Kept("n-2", n.id.HostID) == nil })
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
	f := newLocalCluster(t, 4, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.placed(4)
	out := -1
	f.until("a node has no replica of the system log, nor one that is on its way out", func() bool {
		out = slices.IndexFunc(f.nodes, func(n *Node) bool { return n.logs[rows.SystemLog].local.Load() == nil })
		return out >= 0
	})
	lost := (out + 1) % 4
	f.wipe(w, lost)
	f.cfgs[lost].RaftAddr = freeAddr(t)
	n := f.start(lost)
	f.each(4, func(o *Node) {
		if o != n {
			f.until("its name is kept at "+o.id.NodeID, func() bool {
				return errors.Is(o.cluster.gossip.Kept(n.id.NodeID, n.id.HostID), gossip.ErrKept)
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

// TestForgottenForGood: the name of a node that was removed is kept for nobody after a
// restart either, though nothing else is to be written down; also where it was not seen
// since the start.
func TestForgottenForGood(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	former, other := f.nodes[2].id.HostID, f.nodes[1]
	f.kill(w, 2)
	f.until("it is missed", func() bool { s, _ := other.cluster.byName("n-2"); return !s.Alive })
	f.kill(w, 0)
	w.set(f.cfgs[0].NodeID, false)
	n := f.start(0)
	c := f.rigOn(0).session()
	if _, seen := n.cluster.byName("n-2"); seen {
		t.Fatal("it was seen since the start")
	}
	written := func(o *Node) (p datadir.Peers) {
		t.Helper()
		if err := p.Load(o.cfg.DataDir); err != nil {
			t.Fatal(err)
		}
		return p
	}
	f.each(2, func(o *Node) {
		o.cluster.mu.Lock()
		defer o.cluster.mu.Unlock()
		p := written(o)
		if o.cluster.known.Names()["n-2"].HostID != former || p.Names()["n-2"].HostID != former {
			t.Fatalf("%s does not know it", o.id.NodeID)
		}
	})
	f.until("it is removed, when a leader has told of its replicas", func() bool {
		res := c.ask(&wire.Request{Op: wire.OpNodeRemove, Node: "n-2"})
		return res.Err() == nil
	})
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: "n-2"})
	f.each(2, func(o *Node) {
		f.until(o.id.NodeID+" has forgotten it", func() bool {
			o.cluster.mu.Lock()
			defer o.cluster.mu.Unlock()
			return o.cluster.known.Names()["n-2"].HostID == ""
		})
		f.until(o.id.NodeID+" has it written down", func() bool {
			p := written(o)
			return p.Names()["n-2"].HostID == ""
		})
		if p := written(o); p.NodeOf(former) != "n-2" {
			t.Errorf("after a restart, %s does not know whose the replicas are that are not removed yet", o.id.NodeID)
		}
	})
}

// TestTransferToTheLiving: a leadership goes to the disk that a node has, not to the one that
// it had, which is a voter yet.
func TestTransferToTheLiving(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, nil)
	n, host := f.nodes[0], f.nodes[1].id.HostID
	f.until("they see each other", func() bool { s, _ := n.cluster.sighting(host); return s.Alive })
	n.cluster.mu.Lock()
	n.cluster.known.By["former"] = datadir.Peer{Node: "n-1"}
	n.cluster.mu.Unlock()
	for range 50 { // maps are walked in any order
		if r, h := n.voterOn(map[uint64]string{1: n.id.HostID, 2: "former", 3: host}, "n-1"); r != 3 || h != host {
			t.Fatalf("replica %d is meant, on %s", r, h)
		}
	}
	if r, h := n.voterOn(map[uint64]string{1: n.id.HostID, 2: "former"}, "n-1"); r != 2 || h != "former" {
		t.Errorf("of one voter, replica %d is meant, on %s", r, h)
	}
	if _, h := n.voterOn(map[uint64]string{1: n.id.HostID}, "n-1"); h != "" {
		t.Errorf("of no voter, the one on %s is meant", h)
	}
}

// takenIn says that the cluster has adopted the node.
func (n *Node) takenIn() bool {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	return n.id.Adopted
}
