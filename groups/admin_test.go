package groups

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// status is the cluster as a client is told.
func (c *caller) status() *wire.ClusterStatus {
	c.r.t.Helper()
	doc, err := wire.DecodeClusterStatus(c.must(&wire.Request{Op: wire.OpClusterStatus}).Message)
	if err != nil {
		c.r.t.Fatal(err)
	}
	return doc
}

// TestStatusOfOneNode: a node that is alone hosts and leads every log, and says so.
func TestStatusOfOneNode(t *testing.T) {
	r := newRig(t, func(c *Config) { c.GroupCount, c.LogCount, c.NativeAddr = 7, 2, "10.0.0.1:50050" })
	c := r.session()
	c.must(write("a", "h:/a/x", time.Hour))
	doc := c.status()
	if !doc.Healthy || len(doc.Problems) != 0 || doc.Self != r.node.NodeID() || doc.ClusterID != r.node.ClusterID() {
		t.Errorf("the document is %+v", doc)
	}
	if want := (wire.ClusterSettings{GroupCount: 7, LogCount: 2, ReplicationFactor: 3, Segments: 1,
		Algorithm: "recursive_rw"}); doc.Settings != want {
		t.Errorf("settings %+v", doc.Settings)
	}
	if len(doc.Warnings) != 1 || !strings.Contains(doc.Warnings[0], "start 2 more nodes") {
		t.Errorf("warnings %q", doc.Warnings)
	}
	if len(doc.Nodes) != 1 {
		t.Fatalf("nodes %+v", doc.Nodes)
	}
	if n := doc.Nodes[0]; n.NodeID != doc.Self || n.State != wire.NodeMember || !n.Alive || !n.Stable ||
		n.Replicas != 3 || n.Leads != 3 ||
		n.NativeAddr != "10.0.0.1:50050" || n.HostID == "" || n.ForMillis <= 0 || n.Formats != [2]uint32{1, 1} {
		t.Errorf("node %+v", n)
	}
	groups, names := 0, ""
	for _, l := range doc.Logs {
		groups, names = groups+l.Groups, names+l.Name+" "
		if !l.Healthy || l.Leader != doc.Self || l.Term == 0 || len(l.Voters) != 1 || !l.Voters[0].CaughtUp ||
			l.Voters[0].Applied == 0 ||
			len(l.Target) != 1 || !strings.HasPrefix(l.Step, "settled") {
			t.Errorf("log %+v", l)
		}
	}
	if groups != 7 || names != "system 2 3 " {
		t.Errorf("%d groups in the logs %s", groups, names)
	}
}

// TestStatusInNeed: what is wrong is told while nothing else is answered.
func TestStatusInNeed(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	r.node.refusal.Store(wire.Errorf(wire.Unavailable, "the disk is full"))
	if res := c.ask(write("a", "h:/a/x", time.Hour)); res.Code != wire.Unavailable {
		t.Fatalf("the node takes writes: %+v", res)
	}
	c.status()
	r.node.draining.Store(true)
	defer r.node.draining.Store(false)
	c.status()
	if res := c.ask(&wire.Request{Op: wire.OpNodeResume, Node: r.node.NodeID()}); res.Code != wire.Unavailable {
		t.Errorf("a node that drains took %+v", res)
	}
}

// TestAloneKeepsAll: a node that is alone is neither drained nor removed, and hands
// nothing over.
func TestAloneKeepsAll(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	self := r.node.NodeID()
	for _, a := range []struct {
		req  *wire.Request
		says string
	}{
		{&wire.Request{Op: wire.OpNodeDrain, Node: self, Drain: wire.DrainLeads},
			"no other node is alive that could lead its logs"},
		{&wire.Request{Op: wire.OpNodeDrain, Node: self, Drain: wire.DrainReplicas},
			"no other node is alive that could hold its logs"},
		{&wire.Request{Op: wire.OpNodeRemove, Node: self}, "is alive and holds 3 replicas"},
		{&wire.Request{Op: wire.OpNodeRemove, Node: self, Explicit: true},
			"no other node is alive that could hold its logs"},
		{&wire.Request{Op: wire.OpNodeRemove, Node: "n7"}, "there is none of that name"},
		{&wire.Request{Op: wire.OpNodeResume, Node: "n7"}, "there is none of that name"},
		{&wire.Request{Op: wire.OpClusterTransfer, Target: 2, Node: "n7"}, "there is none of that name"},
		{&wire.Request{Op: wire.OpClusterTransfer, Target: 9, Node: self}, "there is none of that number"},
	} {
		if res := c.ask(a.req); res.Code != wire.FailedPrecondition || !strings.Contains(res.Message, a.says) {
			t.Errorf("%v: %+v, want %q", a.req.Op, res, a.says)
		}
	}
	if marks := r.node.marks(); len(marks) != 0 {
		t.Errorf("marks %v", marks)
	}
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: self})
	c.must(&wire.Request{Op: wire.OpClusterTransfer, Target: 2, Node: self})
	if err := r.node.transfer(2, "n7"); asWire(err).Code != wire.Unavailable {
		t.Errorf("a transfer to nobody: %v", err)
	}
}

// TestMarksLast: what operators ask of nodes is on disk once it is answered, survives
// restarts, power losses and raft's snapshots, and can be taken back.
func TestMarksLast(t *testing.T) {
	r := newRig(t, func(c *Config) { c.SnapshotLog, c.KeepEntries = 5, 1 })
	c := r.session()
	mark := func(node string, d wire.Drain) {
		t.Helper()
		s := steps{n: r.node, c: &wire.Call{ID: r.next.Add(1), Session: c.session}, since: r.node.clock.Mono()}
		if err := s.mark(node, d); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, marks map[string]wire.Drain) {
		t.Helper()
		if got := r.node.marks(); !maps.Equal(got, marks) {
			t.Fatalf("%s: marks %v, want %v", what, got, marks)
		}
	}
	mark("n1", wire.DrainLeads)
	mark("n2", wire.DrainRemoved)
	mark("n3", wire.DrainReplicas)
	all := map[string]wire.Drain{"n1": wire.DrainLeads, "n2": wire.DrainRemoved, "n3": wire.DrainReplicas}
	want("at once", all)
	r.powerLoss()
	want("after a power loss", all)
	for range 20 {
		c.must(&wire.Request{Op: wire.OpIncrToken})
	}
	mark("n3", wire.DrainReplicas)
	r.node.snapshot(rows.SystemLog)
	r.restart()
	want("after a snapshot and a restart", all)

	// They are shown, and taken back by those who ask for it.
	states := make(map[string]string)
	for _, n := range c.status().Nodes {
		states[n.NodeID] = n.State + " " + n.Drain
	}
	if states["n1"] != "unknown leads" || states["n3"] != "unknown replicas" || states["n2"] != "" {
		t.Errorf("states %v", states)
	}
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: "n1"})
	c.must(&wire.Request{Op: wire.OpNodeResume, Node: "n2"})
	r.restart()
	want("after two were taken back", map[string]wire.Drain{"n3": wire.DrainReplicas})
}

// TestStatusOfALostVoter: of two nodes one has the only voter of the system log. When that
// is away the other one says so, and what to do; which mends it.
func TestStatusOfALostVoter(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 2, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.placed(2)
	lost := slices.IndexFunc(f.nodes, func(n *Node) bool { return n.logs[rows.SystemLog].leads() })
	if lost < 0 {
		t.Fatal("nobody leads the system log")
	}
	name, c := f.nodes[lost].id.NodeID, f.rigOn(1-lost).session()
	f.kill(w, lost)
	var doc *wire.ClusterStatus
	f.until("the other one knows that "+name+" is away, and says so", func() bool {
		doc = c.status()
		// Gossip may say so before the end of the connection is noted.
		return len(doc.Problems) > 0 && doc.Logs[0].LastLeader == name &&
			strings.Contains(doc.Problems[0], "was led by "+name+
				", which is not seen, and nobody is known here to lead it since") &&
			strings.Contains(doc.Problems[0], "start "+name+" with its data")
	})
	if l := doc.Logs[0]; !strings.Contains(l.Step, "has had no leader that this node reaches") || l.Leader != "" ||
		l.LastLeader != name || l.Healthy || doc.Healthy {
		t.Errorf("the system log: %+v; healthy %v", l, doc.Healthy)
	}
	f.until("it leads no log", func() bool { // each log notes the end of the connection by itself
		nodes := c.status().Nodes
		i := slices.IndexFunc(nodes, func(n wire.NodeStatus) bool { return n.NodeID == name })
		return nodes[i].Leads == 0
	})
	if res := c.ask(&wire.Request{Op: wire.OpClusterTransfer, Target: 1,
		Node: name}); res.Code != wire.FailedPrecondition {
		t.Errorf("the system log is handed to a node that is gone: %v %s", res.Code, res.Message)
	}
	w.set(name, false)
	f.start(lost)
	f.until("all is well again", func() bool { return c.status().Healthy })
}
