package groups

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// pause is how long a test waits for goroutines to stand where it wants them. Too short, the
// test shows less; it does not fail.
const pause = 200 * time.Millisecond

// freed waits until nobody holds a path any more.
func (r *rig) freed(path string) {
	r.t.Helper()
	c := r.session()
	eventually(r.t, path+" is free", func() bool { return c.inspect(path).Owner == "" })
}

// passes has so much time pass, in the log of h:/a and others too: what is due by then has ended.
func (r *rig) passes(d time.Duration) {
	r.t.Helper()
	c := r.session()
	r.clock.hurry(d)
	for _, path := range []string{"h:/a/n", "h:/b/n", "h:/n/n"} {
		c.must(release("nobody", path)) // an entry says what time it is
	}
}

// TestEndMeetsSendingOn: a wait that was held back by a move, and is sent on its way while it is
// cancelled or its connection ends, ends all the same. The line's own lock makes the two meet.
func TestEndMeetsSendingOn(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(r *rig, c *caller, id uint64){
		"cancelled":         func(r *rig, c *caller, id uint64) { r.node.Cancel(c.session, id) },
		"connection closed": func(r *rig, c *caller, _ uint64) { r.node.Closed(c.session, true, false) },
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil)
			c, holder := r.session(), r.session()
			holder.must(write("holder", "h:/a/y", time.Hour))
			undo := r.frozen("h:/a/b", "h:/a")
			version := r.node.routes.Load().Version
			req := write("dead", "h:/a/b/x", time.Hour)
			req.Locks = append(req.Locks, wire.LockRequest{Path: "h:/a/y"})
			req.Flags = wire.FlagWait | wire.FlagBind
			id := r.next.Add(1)
			o := c.start(id, req)
			r.held(1)

			ln := lineOf(c.session)
			ln.mu.Lock()
			var both sync.WaitGroup
			both.Go(undo)
			eventually(t, "the routes are there", func() bool { return r.node.routes.Load().Version > version })
			time.Sleep(pause) // movesLoop waits for the line, to send the wait on
			both.Go(func() { end(r, c, id) })
			time.Sleep(pause) // and so does the end
			ln.mu.Unlock()
			both.Wait()

			r.held(0)
			o.get(t, "the wait")
			holder.must(release("holder", "h:/a/y"))
			r.freed("h:/a/b/x")
			r.freed("h:/a/y")
		})
	}
}

// TestHeldBackBound: what was to be tied to a connection, and is held back by a move when that
// ends, is not carried out afterwards.
func TestHeldBackBound(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	undo := r.frozen("h:/a/b", "h:/a")
	req := write("dead", "h:/a/b/x", time.Hour)
	req.Flags = wire.FlagBind
	o := c.start(r.next.Add(1), req)
	r.held(1)
	r.node.Closed(c.session, true, false)
	undo()
	r.held(0)
	o.get(t, "the acquire")
	r.freed("h:/a/b/x")
}

// TestLateBind: what is carried out in steps, and would come to a log after the end of its
// connection, does not tie a lease to it.
func TestLateBind(t *testing.T) {
	for name, req := range map[string]*wire.Request{
		"bind":  {Op: wire.OpBind, Owner: "o", GraceMillis: 100, TTLMillis: 3_600_000},
		"renew": {Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Flags: wire.FlagBind},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			c := r.session()
			c.must(write("o", "h:/a/x", 20*time.Second))
			reader := r.node.readers[r.node.logOf(r.node.groupOf("h:/a")).shard]
			reader.mu.Lock() // what has to be read first takes a while
			call := &wire.Call{ID: r.next.Add(1), Op: req.Op, Req: req, Session: c.session, To: c,
				Bound: true, Grace: 100}
			call.Body, call.NArgs = wire.AppendArgs(nil, req)
			o := &outcome{queued: make(chan wire.Result, 1), done: make(chan wire.Result, 1)}
			c.open[call] = o
			r.node.Serve([]*wire.Call{call})
			time.Sleep(pause)
			r.node.Closed(c.session, true, false)
			reader.mu.Unlock()
			o.get(t, name)
			infos := r.session().must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}).List.Infos
			if len(infos) > 0 && infos[0].ExpiresInMillis > 60_000 {
				t.Errorf("the lease lasts for %d ms, and is tied to a connection that is gone",
					infos[0].ExpiresInMillis)
			}
		})
	}
}

// TestEndWhileCutOff: the end of a connection, and of a wait, that a node cannot tell the log's
// leader within request_timeout_ms, is told once it can.
func TestEndWhileCutOff(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 1, time.Second
	})
	f.settle(3)
	const held, waited, given = "h:/cut/held", "h:/cut/waited", "h:/cut/given up"
	led := f.leader(held)
	at := (led + 1) % 3
	n, r, there := f.nodes[at], f.rigOn(at), f.rigOn(led)
	dead, alive, other := r.session(), r.session(), there.session()
	other.must(write("other", waited, time.Hour))
	other.must(write("other", given, time.Hour))
	bound := write("dead", held, time.Hour)
	bound.Flags |= wire.FlagBind
	dead.must(bound)
	wait := write("dead2", waited, time.Hour)
	wait.Flags |= wire.FlagBind | wire.FlagWait
	wait.QueueTTLMillis = 3_600_000
	<-dead.start(r.next.Add(1), wait).queued
	wait = waiting(write("alive", given, time.Hour))
	wait.QueueTTLMillis = 3_600_000
	cancelled := r.next.Add(1)
	o := alive.start(cancelled, wait)
	<-o.queued
	w.set(n.id.NodeID, true)
	f.until("it knows of no leader", func() bool { return n.logs[rows.FirstLog].leaderless() })
	n.Closed(dead.session, true, false) // its client crashed
	n.Cancel(alive.session, cancelled)
	f.until("what was told is given up", func() bool {
		n.unheard.mu.Lock()
		defer n.unheard.mu.Unlock()
		return len(n.unheard.list) >= 2
	})
	w.set(n.id.NodeID, false)
	f.until("the tied lease is over", func() bool { return other.inspect(held).Owner == "" })
	if res := o.get(t, "the wait that was cancelled"); res.Code != wire.Cancelled && res.Code != wire.DeadlineExceeded {
		t.Errorf("a wait that was cancelled is answered %+v", res)
	}
	for _, path := range []string{waited, given} {
		f.until("nobody waits", func() bool { // the way back may cost an election
			res := other.ask(&wire.Request{Op: wire.OpDescribe, Path: path})
			return res.Code == 0 && len(res.List.Waiters) == 0
		})
	}
}

// TestTiesOfTwoSessions: a lease that two sessions of one owner tied outlives the end of the one,
// and ends with that of the other, in whatever order.
func TestTiesOfTwoSessions(t *testing.T) {
	t.Parallel()
	for first := range 2 {
		t.Run(fmt.Sprint("the first that ends is ", first), func(t *testing.T) {
			r := newRig(t, nil)
			both := []*caller{r.session(), r.session()}
			for i, c := range both {
				req := write("svc", fmt.Sprint("h:/n/x", i), time.Hour)
				req.Flags |= wire.FlagBind
				c.must(req)
			}
			r.node.Closed(both[first].session, true, false)
			r.passes(time.Second) // the grace is 100 ms
			if owner := r.session().inspect("h:/n/x0").Owner; owner != "svc" {
				t.Fatalf("a session of the owner is connected, and its lock is held by %q", owner)
			}
			r.restart()
			if owner := r.session().inspect("h:/n/x0").Owner; owner != "svc" {
				t.Fatalf("after a restart the lock is held by %q", owner)
			}
			r.node.Closed(both[1-first].session, true, false)
			r.freed("h:/n/x0")
			r.freed("h:/n/x1")
		})
	}
}

// TestRepeatsKeepTheirTimes: of two tied acquires that are asked again after their connection
// ended, each is told that it has its own time, and has it, though the first left a shorter one.
func TestRepeatsKeepTheirTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	var asked []func() *outcome
	for i, ttl := range []time.Duration{time.Second, time.Hour} {
		req, id := write("o", fmt.Sprint("h:/a/", i), ttl), r.next.Add(1)
		req.Flags |= wire.FlagBind
		ask := func() *outcome { return c.start(id, req) }
		if res := ask().get(t, "an acquire"); res.Status != wire.StatusOK || res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		asked = append(asked, ask)
	}
	first := c.session
	c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
	r.node.Closed(first, true, false) // in the same log, before the repeats
	var again []*outcome
	for _, ask := range asked {
		again = append(again, ask())
	}
	for _, o := range again {
		if res := o.get(t, "a repeat"); res.Status != wire.StatusOK || res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
	}
	r.passes(1200 * time.Millisecond) // the shorter time is over
	if owner := r.session().inspect("h:/a/1").Owner; owner != "o" {
		t.Errorf("a lock that a repeat said is held for an hour is held by %q", owner)
	}
}

// TestBindReachesWaits: a bind ties what its session waits for, and an unbind unties it.
func TestBindReachesWaits(t *testing.T) {
	t.Parallel()
	for _, unbinds := range []bool{true, false} {
		t.Run(fmt.Sprint("unbinds ", unbinds), func(t *testing.T) {
			r := newRig(t, nil)
			c, holder := r.session(), r.session()
			holder.must(write("holder", "h:/a/x", time.Hour))
			req := waiting(write("o", "h:/a/x", time.Hour))
			if unbinds {
				req.Flags |= wire.FlagBind // as a server does for who is bound
			}
			o := c.start(r.next.Add(1), req)
			<-o.queued
			if unbinds {
				c.must(&wire.Request{Op: wire.OpUnbind, Owner: "o"})
			} else {
				c.start(r.next.Add(1), &wire.Request{Op: wire.OpBind, Owner: "o", GraceMillis: 100,
					Flags: wire.FlagBind}).get(t, "bind")
			}
			holder.must(release("holder", "h:/a/x"))
			if res := o.get(t, "the wait"); res.Status != wire.StatusOK || res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			r.node.Closed(c.session, true, false)
			if !unbinds {
				r.freed("h:/a/x")
				return
			}
			r.passes(time.Second)
			if owner := r.session().inspect("h:/a/x").Owner; owner != "o" {
				t.Errorf("the lease is not tied, and the path is held by %q after the connection closed", owner)
			}
		})
	}
}

// TestLateWaitAskedAgain: a wait whose time is over, and that nobody came to end yet, is over when
// it is asked again: its call is answered so, and nothing is granted later.
func TestLateWaitAskedAgain(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	holder, waits, many := bareSession(1), bareSession(2), bareSession(3)
	b.one(bareAsk(holder, 1, write("holder", "h:/a/x", time.Hour)))
	big := write("many", "h:/a/0", time.Second)
	for i := range 1023 { // more than one entry reaps
		big.Locks = append(big.Locks, wire.LockRequest{Path: fmt.Sprintf("h:/a/m%d", i)})
	}
	req := waiting(write("w", "h:/a/x", time.Hour))
	req.QueueTTLMillis = 1000
	first := bareAsk(waits, 7, req)
	b.do(1, bareAsk(many, 1, big), first)
	if len(first.queued) != 1 {
		t.Fatalf("%+v %+v", first.res, first.queued)
	}
	again := bareAsk(later(waits), 7, req)
	b.do(1500, again)
	if len(again.res) != 1 || again.res[0].Code != wire.DeadlineExceeded || len(again.queued) != 0 {
		t.Errorf("the repeat is queued %+v, answered %+v", again.queued, again.res)
	}
	b.one(bareAsk(holder, 2, release("holder", "h:/a/x")))
	if owner := b.m.View(0).Inspect("h:/a", "h:/a/x").Owner; owner != "" {
		t.Errorf("%s holds the path, and was told that its wait is over", owner)
	}
}

// TestGrantedByARepeat: the repeat of an acquire does not make it the one that took what another
// acquire of its owner took since.
func TestGrantedByARepeat(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, replica.DefaultLimits())
			one, two := bareSession(1), bareSession(2)
			take := func(key string) *wire.Request {
				req := write("svc", "h:/a/x", time.Hour)
				req.Key = key
				return req
			}
			b.one(bareAsk(one, 1, take(key))) // its answer is lost
			b.one(bareAsk(two, 1, release("svc", "h:/a/x")))
			b.one(bareAsk(two, 2, take(""))) // this one is heard of, and believed
			one = later(one)
			id := uint64(1)
			if key != "" {
				id = 2
			}
			b.one(bareAsk(one, id, take(key)))
			undo := release("svc", "h:/a/x")
			undo.Target = id
			b.one(bareAsk(one, id+1, undo))
			if owner := b.m.View(0).Inspect("h:/a", "h:/a/x").Owner; owner != "svc" {
				t.Error("the lock of the second acquire was given back by a release of what the first was granted")
			}
		})
	}
}
