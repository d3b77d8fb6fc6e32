package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestLateEndOfAnOrphan: what a node says of a wait that nobody has asked for, and cannot get into
// the log before another node leads, does not end the wait of a client that came back there, and
// was told its place.
func TestLateEndOfAnOrphan(t *testing.T) {
	t.Parallel()
	for round, there := 0, false; !there; round++ {
		if round == 4 {
			t.Fatal("each time another node led before the wait could be given up")
		}
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { there = lateEndOfAnOrphan(t) })
		there = there || t.Failed()
	}
}

// lateEndOfAnOrphan says whether it got so far that the wait was given up by the node that was
// to: another one may have come to lead meanwhile.
func lateEndOfAnOrphan(t *testing.T) bool {
	const path = "h:/cut/x"
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout, c.LeaderBalance = w, time.Hour, 1,
			3*time.Second, time.Hour
	})
	f.until("every node votes in every log", func() bool {
		for _, n := range f.nodes {
			for _, shard := range []uint64{rows.SystemLog, rows.FirstLog} {
				if m := n.logs[shard].local.Load(); m == nil || !m.Voting.Load() {
					return false
				}
			}
		}
		return true
	})
	first := f.leader(path)
	holder := f.rigOn((first + 1) % 3).session()
	holder.must(write("holder", path, time.Hour))
	r := f.rigOn(first)
	client, id := r.session(), r.next.Add(1)
	req := func() *wire.Request {
		req := waiting(write("waits", path, time.Hour))
		req.QueueTTLMillis = 3_600_000
		return req
	}
	<-client.start(id, req()).queued
	caller := (&part{Command: replica.Command{Session: client.session, ID: id}}).caller()

	f.kill(w, first) // the client's node, which leads
	second := f.leader(path)
	n := f.nodes[second]
	left := &n.forwards.left
	due := func(at time.Duration) (noted bool) {
		left.mu.Lock()
		defer left.mu.Unlock()
		for i := range left.list {
			if o := &left.list[i]; o.caller == caller {
				noted, o.due = true, at
			}
		}
		return noted
	}
	f.until("the next leader notes that the wait has nobody to tell", func() bool { return due(time.Hour) })
	w.set(f.cfgs[first].NodeID, false)
	f.start(first)
	f.until("it is back", func() bool {
		host, _ := f.nodes[first].leaderOf(rows.FirstLog)
		m := f.nodes[first].logs[rows.FirstLog].local.Load()
		return host == n.id.HostID && m != nil && m.Voting.Load() && m.AppliedIndex() > 0
	})
	f.until("the leader reaches everybody", func() bool { return len(n.cutOff()) == 0 })
	if !n.logs[rows.FirstLog].leads() {
		return false
	}

	w.set(n.id.NodeID, true)
	if !due(1) {
		return false
	}
	n.endOrphans() // the client's time to come back is over
	if due(1) {
		t.Fatal("the wait was not given up")
	}
	third := -1
	f.until("another node leads", func() bool {
		for i, o := range f.nodes {
			if i != second && o.logs[rows.FirstLog].leads() {
				third = i
			}
		}
		return third >= 0
	})
	there := f.rigOn(third)
	there.next.Add(100_000)
	holder = there.session()
	back := there.session()
	back.session = &wire.Session{ID: client.session.ID, Epoch: 2, Window: 256}
	o := back.start(id, req())
	select {
	case res := <-o.queued:
		if res.Status != wire.StatusQueued {
			t.Fatalf("the client is told %+v", res)
		}
	case res := <-o.done:
		t.Fatalf("the client is answered %+v", res)
	case <-time.After(patience):
		t.Fatal("the client is told nothing")
	}
	w.set(n.id.NodeID, false)
	l := n.logs[rows.FirstLog]
	f.until("the former leader knows the new one, and has nothing left to say", func() bool {
		host, _ := n.leaderOf(rows.FirstLog)
		l.mu.Lock()
		defer l.mu.Unlock()
		return host != "" && host != n.id.HostID && len(l.mu.queue)+len(l.mu.batches)+len(l.mu.forwarded.parts) == 0
	})
	holder.must(release("holder", path))
	if res := o.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("nobody cancelled the wait, and its client, which was told its place, is answered %+v", res)
	}
	return true
}

// TestEndOfAnOrphanInItsLeaderEpoch: the end of a wait that nobody has asked for is not proposed under
// another leader epoch than that under which this was found out, and is looked at anew when it was not
// heard: who asks for the wait after all, on the same connection too, keeps it.
func TestEndOfAnOrphanInItsLeaderEpoch(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for _, another := range []bool{true, false} {
		t.Run(fmt.Sprint("another leader epoch ", another), func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.RequestTimeout = time.Second })
			n := r.node
			l := n.logOf(n.groupOf("h:/a"))
			holder, client := r.session(), r.session()
			holder.must(write("holder", path, time.Hour))
			req := waiting(write("waits", path, time.Hour))
			req.QueueTTLMillis = 3_600_000
			id := r.next.Add(1)
			<-client.start(id, req).queued
			caller := (&part{Command: replica.Command{Session: client.session, ID: id}}).caller()
			if !n.waits.take(caller, n.waits.get(caller)) {
				t.Fatal("its call is not open")
			}
			listed := func() (due []orphan) {
				f := &n.forwards.left
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, o := range f.list {
					if o.caller == caller {
						due = append(due, o)
					}
				}
				return due
			}
			n.inherit(l, l.held.Load())
			found := listed()
			if len(found) == 0 || found[0].epoch != client.session.Epoch {
				t.Fatalf("listed: %+v", found)
			}
			was := l.lead.Load()
			if another {
				l.leaderChanged(was.term+1, 99)
			} else {
				l.pauses(true) // nothing gets to raft
			}
			n.forwards.left.mu.Lock()
			n.forwards.left.keep(func(*orphan) bool { return false }) // as endOrphans takes it out
			n.forwards.left.mu.Unlock()
			n.endOrphan(found[0])
			eventually(t, "its end was looked at", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				if another && !l.mu.suspect && len(l.mu.queue) > 0 {
					t.Fatal("its end is kept for whoever leads next")
				}
				return len(l.mu.queue) == 0
			})
			if another {
				l.held.Store(was.term) // it goes on as if nothing were
				l.leaderChanged(was.term, was.leader)
			} else {
				eventually(t, "it is listed again", func() bool { return len(listed()) > 0 })
				l.pauses(false)
			}
			o := client.start(id, req)
			if res := <-o.queued; res.Position != 1 {
				t.Errorf("the repeat is told %+v", res)
			}
			holder.must(release("holder", path))
			if res := o.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Errorf("it is answered %+v", res)
			}
		})
	}
}
