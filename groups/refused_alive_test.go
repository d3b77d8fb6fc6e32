package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedButAlive: nobody is found at a node's address, but its connection to here is open: it lives, and its
// calls keep their waits.
func TestRefusedButAlive(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, func(_ int, c *Config) { c.EvictionWindow, c.LogCount = time.Hour, 1 })
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
	n.fallen(host)
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

// TestHeardAgain: a process that was taken to be over asks on a new connection: it is not.
func TestHeardAgain(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	n.processOver("peer", 5)
	if in := n.inboundOf(new(wireEnd), "peer"); !in.latest([2]uint64{5, 2}) {
		t.Fatal("it is no later one")
	}
	if n.processes.over(engine.Session(newSessionOf("peer", 5))) || !n.processes.over(engine.Session(newSessionOf("peer", 4))) {
		t.Error("which of its processes are over")
	}
}
