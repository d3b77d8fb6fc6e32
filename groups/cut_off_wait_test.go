package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// cutOffWait is a client that waits at a node which is then cut off, and what is about it.
type cutOffWait struct {
	f      *localCluster
	w      *network
	path   string
	first  int     // where it waits
	leader int     // who leads without that node
	term   uint64  // in which
	holder *caller // of the path; at a node that is not cut off, as behind
	waits  *waiter
	behind *waiter // who waits after it
}

// cutWaits has a client wait on each log's leader, or another node, and cuts that off, until another
// node leads as far as everybody else knows. A request may take ten minutes: what is
// answered before is not answered for that.
func cutWaits(t *testing.T, atLeader bool, queueTTL time.Duration) *cutOffWait {
	c := &cutOffWait{w: new(network), path: "h:/cut/x"}
	c.f = newLocalCluster(t, 3, func(_ int, cfg *Config) {
		cfg.Faults, cfg.EvictionWindow, cfg.LogCount, cfg.RequestTimeout = c.w, time.Hour, 1, 10*time.Minute
	})
	c.f.settle(3)
	if c.first = c.f.leader(c.path); !atLeader {
		c.first = (c.first + 1) % 3
	}
	other := c.f.rigOn((c.first + 1) % 3)
	c.holder = other.session()
	c.holder.must(write("holder", c.path, time.Hour))
	first := c.f.rigOn(c.first)
	c.waits = &waiter{c: first.session(), id: first.next.Add(1), req: waiting(write("first", c.path, time.Hour))}
	c.waits.req.QueueTTLMillis = uint64(queueTTL.Milliseconds())
	c.stands(c.waits, 1)
	c.behind = &waiter{c: other.session(), id: other.next.Add(1), req: waiting(write("behind", c.path, time.Hour))}
	c.stands(c.behind, 2)
	c.w.set(c.node().id.NodeID, true)
	c.f.until("the others agree who leads", func() bool {
		known := 0
		for i, n := range c.f.nodes {
			if i != c.first && n.logs[rows.FirstLog].leads() {
				c.leader = i
			}
		}
		if c.leader == c.first || !c.f.nodes[c.leader].logs[rows.FirstLog].leads() {
			return false
		}
		for i, n := range c.f.nodes {
			if host, term := n.leaderOf(rows.FirstLog); i != c.first && host == c.f.nodes[c.leader].id.HostID {
				known, c.term = known+1, term
			}
		}
		return known == 2
	})
	return c
}

func (c *cutOffWait) node() *Node { return c.f.nodes[c.first] }

// stands has a waiter ask, again or for the first time, and holds that it is told its place.
func (c *cutOffWait) stands(w *waiter, place uint64) {
	c.f.t.Helper()
	w.o = w.c.start(w.id, w.req)
	c.f.until(w.req.Owner+" is told its place", func() bool { return len(w.o.queued)+len(w.o.done) > 0 })
	select {
	case res := <-w.o.done:
		c.f.t.Fatalf("%s: %+v", w.req.Owner, res)
	case res := <-w.o.queued:
		if res.Position != place {
			c.f.t.Fatalf("%s stands at %d, not at %d", w.req.Owner, res.Position, place)
		}
	}
}

// answer waits for the answer of a waiter.
func (c *cutOffWait) answer(w *waiter) wire.Result {
	c.f.t.Helper()
	c.f.until(w.req.Owner+" is answered", func() bool { return len(w.o.done) > 0 })
	return <-w.o.done
}

// granted holds that waiters are granted one after the other, the path being free.
func (c *cutOffWait) granted(row ...*waiter) {
	c.f.t.Helper()
	for i, w := range row {
		if res := c.answer(w); res.Code != wire.OK || res.Status != wire.StatusOK {
			c.f.t.Fatalf("%s: %+v", w.req.Owner, res)
		}
		for _, later := range row[i+1:] {
			if len(later.o.done) > 0 {
				c.f.t.Fatalf("%s is answered while %s holds the path: %+v", later.req.Owner, w.req.Owner,
					<-later.o.done)
			}
		}
		w.c.must(release(w.req.Owner, c.path))
	}
}

// back lets the node hear the others, until it has asked again for what it waits for: at who leads now, which may be
// itself, elected anew.
func (c *cutOffWait) back() {
	c.f.t.Helper()
	c.w.set(c.node().id.NodeID, false)
	l := c.node().logs[rows.FirstLog]
	c.f.until("it has asked again", func() bool {
		host, term := c.node().leaderOf(rows.FirstLog)
		own := host == c.node().id.HostID
		if host == "" || term < c.term || own && !l.leads() {
			return false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if own {
			return len(l.mu.queue) == 0 && len(l.mu.batches) == 0
		}
		return len(l.mu.queue) == 0 && (l.mu.forwarded.conn != nil || len(l.mu.forwarded.parts) == 0)
	})
	// What it asked comes before what is asked now.
	r := c.f.rigOn(c.first)
	r.next.Add(1000)
	r.session().must(write("later", "h:/cut/later", time.Hour))
}

// atLeaderAndElsewhere runs a test with the cut off node as the leader, and not.
func atLeaderAndElsewhere(t *testing.T, test func(t *testing.T, atLeader bool)) {
	t.Parallel()
	for name, atLeader := range map[string]bool{"leader cut off": true, "follower cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, atLeader)
		})
	}
}

// TestWaitGoesOnElsewhere: a client waits at a node that is cut off, and asks again, on a
// later connection, at another one. When the first node is back it asks for the wait as it
// knew it. The wait is answered once, where its session lives, and keeps its place.
func TestWaitGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	for name, atNewLeader := range map[string]bool{"at the leader": true, "at a follower": false} {
		t.Run(name, func(t *testing.T) {
			atLeaderAndElsewhere(t, func(t *testing.T, atLeader bool) {
				c := cutWaits(t, atLeader, time.Hour)
				gone, later := *c.waits.c.session, *c.waits.c.session
				later.Epoch++
				next := c.leader
				if !atNewLeader {
					next = 3 - c.first - c.leader
				}
				on := &waiter{c: c.f.rigOn(next).session(), id: c.waits.id, req: c.waits.req}
				on.c.session = &later
				c.stands(on, 1)
				c.back()
				c.node().Closed(&gone, false, false) // it finds out that the connection has ended
				c.holder.must(release("holder", c.path))
				c.granted(on, c.behind)
			})
		})
	}
}

// TestPlacesOutliveIsolation: who waits at a node that is cut off keeps the place, however
// long that is, and is granted when its turn comes and the node is back. The client does
// nothing about it.
func TestPlacesOutliveIsolation(t *testing.T) {
	atLeaderAndElsewhere(t, func(t *testing.T, atLeader bool) {
		c := cutWaits(t, atLeader, time.Hour)
		n := c.f.nodes[c.leader]
		left := &n.forwards.left
		c.f.until("the leader notes that the wait has nobody to tell", func() bool {
			left.mu.Lock()
			defer left.mu.Unlock()
			noted := false
			for i := range left.list {
				o := &left.list[i]
				if o.caller == (&part{Command: replica.Command{Session: c.waits.c.session, ID: c.waits.id}}).caller() {
					noted, o.due = true, 0 // its grace is over
				}
			}
			return noted
		})
		n.endOrphans()
		c.stands(c.behind, 2) // which is asked after the end of a wait, if there was one
		c.back()
		c.holder.must(release("holder", c.path))
		c.granted(c.waits, c.behind)
	})
}

// TestWaitsEndInTime: who waits at a node that is cut off is told when its time in the
// queue is over, and not granted anything after that.
func TestWaitsEndInTime(t *testing.T) {
	atLeaderAndElsewhere(t, func(t *testing.T, atLeader bool) {
		c := cutWaits(t, atLeader, 2*time.Second)
		if res := c.answer(c.waits); res.Code != wire.DeadlineExceeded {
			t.Fatalf("its time is over: %+v", res)
		}
		c.back()
		c.stands(c.behind, 1)
		c.holder.must(release("holder", c.path))
		c.granted(c.behind)
	})
}
