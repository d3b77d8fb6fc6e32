package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedButAlive: nobody is found at a node's address, but its connection to here is open: it lives, and its
// calls keep their waits.
func TestRefusedButAlive(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.EvictionWindow, c.LogCount = time.Hour, 1 })
	f.settle(3)
	lead := f.leader("h:/a/x")
	at := (lead + 1) % 3
	r, n := f.rigOn(at), f.nodes[lead]
	holder := f.rigOn(lead).session()
	holder.must(write("holder", "h:/a/x", time.Hour))
	o := r.row(r.served(), "call", "h:/a/x")
	host := r.node.id.HostID
	n.cluster.looking.Lock() // what it knows stays
	s, _ := n.cluster.sighting(host)
	s.LinkAddr = freeAddr(t)
	n.cluster.mu.Lock()
	n.cluster.byHost[host] = s
	n.cluster.mu.Unlock()
	n.failedLeader(host)
	n.cluster.looking.Unlock()
	if n.processes.over(engine.Session(newSessionOf(host, s.Incarnation))) {
		t.Error("its process is taken to be over")
	}
	holder.must(release("holder", "h:/a/x"))
	select {
	case res := <-o.done:
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the wait is answered %+v", res)
		}
	case <-time.After(patience):
		t.Error("the wait is not answered")
	}
}

// TestHeardTooLate: what a process sent is read from a buffer when a later one is known: it stays over, and nothing of
// it is taken.
func TestHeardTooLate(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	n.processOver("peer", 5) // nobody listens there
	n.processKnown("peer", 6)
	in := n.inboundOf(new(wireEnd), "peer")
	first, again := in.latest([2]uint64{5, 2}), in.latest([2]uint64{5, 2})
	if first || again || !in.closed.Load() {
		t.Error("it is taken")
	}
	if !n.processes.over(engine.Session(newSessionOf("peer", 5))) ||
		n.processes.over(engine.Session(newSessionOf("peer", 6))) {
		t.Error("which of its processes are over")
	}
	if !n.inboundOf(new(wireEnd), "peer").latest([2]uint64{6, 1}) {
		t.Error("the later one is not taken")
	}
}

// TestLastConnectionEnds: the connection on which a node asks is the last to be seen to end, after nobody was found at
// its address: its process is over then.
func TestLastConnectionEnds(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow, c.LogCount = w, time.Hour, 1 })
	f.settle(3)
	lead := f.leader("h:/a/x")
	n, gone := f.nodes[lead], f.nodes[(lead+1)%3]
	host, starts := gone.id.HostID, gone.id.Starts
	var conn *mesh.Conn
	f.until("it is connected to here", func() bool {
		n.cluster.mu.Lock()
		defer n.cluster.mu.Unlock()
		for c := range n.cluster.accepted {
			if c.Peer().Host == host {
				conn = c
			}
		}
		return conn != nil
	})
	over := func() bool { return n.processes.over(engine.Session(newSessionOf(host, starts))) }
	f.kill(w, (lead+1)%3)
	f.until("its process is known to be over", over)
	n.processes.alive(host, starts) // as by a frame that was read late
	if over() {
		t.Fatal("it is not heard")
	}
	n.cluster.closed(conn, nil)
	f.until("its process is known to be over again", over)
}

// TestHeardAgain: a process that was taken to be over asks on a new connection: it is not.
func TestHeardAgain(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	n.processOver("peer", 5)
	if in := n.inboundOf(new(wireEnd), "peer"); !in.latest([2]uint64{5, 2}) {
		t.Fatal("it is no later one")
	}
	if n.processes.over(engine.Session(newSessionOf("peer", 5))) ||
		!n.processes.over(engine.Session(newSessionOf("peer", 4))) {
		t.Error("which of its processes are over")
	}
}
