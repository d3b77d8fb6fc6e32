package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestClusterDrains asks of one node what another has to do: a leadership goes where it is
// sent, a drained node is emptied and used again when that is taken back, and one that is
// removed is forgotten.
func TestClusterDrains(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 4, evicts)
	f.placed(4)
	asked := 0
	for i, n := range f.nodes { // it has to ask others for all of it
		if n.logs[rows.SystemLog].local.Load() == nil {
			asked = i
		}
	}
	c := f.rigOn(asked).session()
	gone := f.nodes[(asked+1)%4]
	name := gone.id.NodeID

	shard, to, self := uint64(0), "", f.nodes[asked].id.NodeID
	f.until("a leadership is handed over", func() bool { // UNAVAILABLE while it goes elsewhere on its own
		for _, l := range c.status().Logs {
			for _, v := range l.Voters {
				if l.Leader != self && v.Node != self && v.Node != l.Leader {
					shard, to = l.Log, v.Node
				}
			}
		}
		res := c.ask(&wire.Request{Op: wire.OpClusterTransfer, Target: shard, Node: to})
		if res.Code != wire.OK && res.Code != wire.Unavailable {
			t.Fatalf("%+v", res)
		}
		return res.Code == wire.OK
	})
	if host, _ := f.nodes[asked].leaderOf(shard); f.nodes[asked].nodeOf(host) != to {
		t.Errorf("%s leads log %d, it was handed to %s", f.nodes[asked].nodeOf(host), shard, to)
	}

	if len(gone.replicasHere()) == 0 {
		t.Fatal("the node to drain holds nothing")
	}
	c.must(&wire.Request{Op: wire.OpNodeDrain, Node: name, Drain: wire.DrainReplicas})
	state := func() string {
		for _, n := range c.status().Nodes {
			if n.NodeID == name {
				return n.State
			}
		}
		return ""
	}
	if s := state(); s != wire.NodeLeaving {
		t.Errorf("it is %s while it is drained", s)
	}
	f.until("it is empty", func() bool { return len(gone.replicasHere()) == 0 })
	f.settle(3)
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: name})
	f.until("it is used again", func() bool { return len(gone.replicasHere()) > 0 })
	f.placed(4)

	res := c.ask(&wire.Request{Op: wire.OpNodeRemove, Node: name})
	if res.Code != wire.FailedPrecondition || !strings.Contains(res.Message, "drain it first") {
		t.Errorf("a node that is alive is removed: %+v", res)
	}
	if err := gone.Close(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	f.nodes[(asked+1)%4] = nil
	f.until("it is missed", func() bool { return state() == wire.NodeDead })
	c.must(&wire.Request{Op: wire.OpNodeRemove, Node: name})
	f.each(3, func(n *Node) {
		f.until(n.id.NodeID+" has forgotten it", func() bool { _, known := n.cluster.byName(name); return !known })
	})
	f.settle(3) // until then it is told whose replicas are waited for
	if s := state(); s != "" {
		t.Errorf("it is %s once it was removed", s)
	}
	if nodes := c.status().Nodes; len(nodes) != 3 {
		t.Errorf("nodes %+v, want the three that are left", nodes)
	}
}
