package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// movedUnder is a request with a key about what an owner holds in two logs, of which one, that of the key, has two
// namespaces that may be one inside the other. A repeat of it is kept back behind its claim.
type movedUnder struct {
	*rig
	held   *heldCall
	key    string
	nested string // below h:/a, and in another group of the same log when it is a namespace
	near   string // in the group of nested
	far    string // in the other log
	b      *shardLog
	other  *caller
}

// firstName is the first name of a format with a number in it for which something is so.
func firstName(format string, is func(name string) bool) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf(format, i); is(name) {
			return name
		}
	}
}

// queues waits until something is in a log's queue.
func queues(t *testing.T, what string, l *shardLog) {
	t.Helper()
	eventually(t, what, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) > 0
	})
}

func newMovedUnder(t *testing.T) *movedUnder {
	m := &movedUnder{held: newHeldCall(), key: "k"}
	m.rig = newRig(t, func(c *Config) {
		briefKeys(c)
		c.stated = nil // keys are kept for 300 s
		c.seams.claimed = m.held.claimed
	})
	n := m.node
	group := n.groupOf("h:/a")
	log := n.logOf(group)
	m.nested = firstName("h:/a/b%d", func(ns string) bool {
		return n.groupOf(ns) != group &&
			n.logOf(n.groupOf(ns)) == log
	})
	m.near = firstName("g:/s%d", func(ns string) bool { return n.groupOf(ns) == n.groupOf(m.nested) })
	m.far = firstName("g:/f%d", func(ns string) bool { return n.logOf(n.groupOf(ns)) != log })
	m.key = firstName("k%d", func(key string) bool { return n.logOf(wire.HomeOf(key, n.cfg.GroupCount)) == log })
	m.b = n.logOf(n.groupOf(m.far))
	m.other = m.session()
	return m
}

func (m *movedUnder) takes(path string) { m.other.must(write("o", path, time.Hour)) }

// releaseAll is asked by a session of its own.
func (m *movedUnder) releaseAll() *outcome {
	return m.session().start(m.next.Add(1), &wire.Request{
		Op: wire.OpReleaseAll, Owner: "o", Key: m.key, Domains: []string{m.nested, m.far},
	})
}

// quick has a request be asked, whose part in the other log waits.
func (m *movedUnder) quick(t *testing.T, ask func() *outcome) *outcome {
	t.Helper()
	m.b.pauses(true)
	o := ask()
	queues(t, "its part is queued", m.b)
	return o
}

// over has the quick one be answered, take then be done, and the slow one go on. What was taken, or held before, is
// to be held still.
func (m *movedUnder) over(t *testing.T, quick, slow *outcome, then string, held ...string) {
	t.Helper()
	m.b.pauses(false)
	if res := quick.get(t, "the quick one"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	m.takes(then)
	close(m.held.goOn)
	if res := slow.get(t, "the slow one"); res.Code != wire.OK {
		t.Errorf("the slow one is answered %v %s", res.Code, res.Message)
	}
	for _, path := range append(held, then) {
		if owner := m.other.inspect(path).Owner; owner != "o" {
			t.Errorf("%s is held by %q", path, owner)
		}
	}
}

// TestAttemptsBesideANewNamespace: a release_all of two domains is carried out in one log, and waits for the other. The
// first domain becomes a namespace of its own, in a group in which the owner holds something else. The request is
// asked again, which finds the domain there, and is slow. Once the first one is answered it takes nothing away.
func TestAttemptsBesideANewNamespace(t *testing.T) {
	m := newMovedUnder(t)
	m.takes("h:/a/x")
	m.takes(m.near + "/z")
	m.takes(m.far + "/z")
	quick := m.quick(t, m.releaseAll)
	eventually(t, "the part before it is carried out", func() bool { return m.other.inspect("h:/a/x").Owner == "" })
	m.other.must(setPolicy(m.nested, wire.RecursiveRW))
	slow := m.held.holds(m.releaseAll)
	m.over(t, quick, slow, m.nested+"/y", m.near+"/z")
}

// TestAttemptsBesideADeletedNamespace: as before, and the domain is a namespace of its own no more. What the owner
// holds in the namespace around it was never asked for.
func TestAttemptsBesideADeletedNamespace(t *testing.T) {
	m := newMovedUnder(t)
	m.other.must(setPolicy(m.nested, wire.RecursiveRW))
	m.takes("h:/a/never")
	m.takes(m.nested + "/x")
	m.takes(m.far + "/z")
	quick := m.quick(t, m.releaseAll)
	eventually(t, "the part before it is carried out",
		func() bool { return m.other.inspect(m.nested+"/x").Owner == "" })
	m.other.must(deletePolicy(m.nested))
	slow := m.held.holds(m.releaseAll)
	m.over(t, quick, slow, m.nested+"/y", "h:/a/never")
}

// TestAttemptsOverTwoMoves: a release of two paths is claimed, and gets no further. The first path, which is free,
// comes to a namespace of its own. The release is asked again, leaves that path out, and waits for the other's log.
// The path comes back to where it was, and the release is asked once more, and is slow.
func TestAttemptsOverTwoMoves(t *testing.T) {
	m := newMovedUnder(t)
	x, y := m.nested+"/x", m.far+"/y"
	req := &wire.Request{
		Op: wire.OpRelease, Owner: "o", Key: m.key, Releases: []wire.ReleaseRequest{{Path: x}, {Path: y}},
	}
	ask := func() *outcome { return m.session().start(m.next.Add(1), req) }
	m.takes(y)
	first := steps{n: m.node, req: req, since: m.clock.Mono()}
	first.c = &wire.Call{Op: wire.OpRelease, ID: m.next.Add(1), Session: m.session().session}
	if _, err := first.claim(appendNS(appendNS(nil, "h:/a"), m.far)); err != nil {
		t.Fatal(err)
	}
	m.other.must(setPolicy(m.nested, wire.RecursiveRW))
	quick := m.quick(t, ask)
	m.other.must(deletePolicy(m.nested))
	slow := m.held.holds(ask)
	m.over(t, quick, slow, x)
}

// TestManyAttempts: many sessions ask a request with one key at once, of what an owner holds in many groups. All of
// them are answered OK, though each overtakes others; and what the owner takes after the first of these answers stays.
func TestManyAttempts(t *testing.T) {
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, nil)
			answered := make(chan wire.Result)
			const many = 20
			for range many {
				o := k.ask()
				go func() { answered <- o.get(t, "one of them") }()
			}
			for i := range many {
				if res := <-answered; res.Code != wire.OK {
					t.Errorf("%v %s", res.Code, res.Message)
				}
				if i == 0 {
					k.takes(k.here)
				}
			}
			if !k.held(k.here) {
				t.Error("what was taken after the first answer was taken away")
			}
		})
	}
}

// TestOneAttemptLeadsToAnother: a request with a key is carried out, but for its end, when another session makes an
// attempt of it and is gone. It makes another attempt, and is answered OK.
func TestOneAttemptLeadsToAnother(t *testing.T) {
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, nil)
			k.b.pauses(true)
			o := k.ask()
			k.takenUpTo(t)
			if cl, err := k.claims(k.steps(), nil); err != nil || cl.done || cl.attempt != 2 {
				t.Fatal(cl, err)
			}
			k.b.pauses(false)
			if res := o.get(t, op.String()); res.Code != wire.OK {
				t.Errorf("%v %s", res.Code, res.Message)
			}
			if cl, err := k.steps().claim(nil); err != nil || !cl.done {
				t.Error(cl, err)
			}
		})
	}
}

// TestMemoryOfAnotherClaim: what a session remembers of a part that it asked for in one claim counts for nothing in
// another one, under the same id, and the part is not carried out a second time.
func TestMemoryOfAnotherClaim(t *testing.T) {
	for _, op := range []wire.Op{wire.OpReleaseAll, wire.OpForceRelease} {
		k := newKeyedOver(t, op, nil)
		s, group := k.steps(), []uint16{k.node.groupOf(k.ns)}
		ask := func(claim int64) *wire.Error {
			key := engine.PartKey(op, k.key, claim, 1)
			return s.each(group, &wire.Request{Op: op, Owner: k.owner, Key: key})
		}
		if err := ask(1); err != nil || k.held(k.here) {
			t.Fatal(op, err)
		}
		k.takes(k.here)
		for range 2 {
			if err := ask(2); err == nil || err.Code != wire.Forgotten || !k.held(k.here) {
				t.Errorf("%v in another claim: %v", op, err)
			}
		}
		if err := ask(1); err != nil || !k.held(k.here) {
			t.Errorf("%v in its claim: %v", op, err)
		}
	}
}

// TestEndOfAnEarlierConnection: a call has carried all of its request out when its session goes on on a later
// connection, and asks it again. The end of the first one is refused, and does not close the claim to the other one.
func TestEndOfAnEarlierConnection(t *testing.T) {
	k := newKeyedOver(t, wire.OpReleaseAll, nil)
	first, again := k.steps(), k.steps()
	later := *first.c.Session
	later.Epoch++
	again.c.ID, again.c.Session = first.c.ID, &later
	c, err := first.claim(nil)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := again.claim(nil)
	if err != nil || cl.token != c.token || cl.attempt != 2 {
		t.Fatal(cl, err)
	}
	if err := first.ends(c, nil); err == nil || err.Code != wire.Aborted {
		t.Error("the end of the first is answered", err)
	}
	if err := again.ends(cl, nil); err != nil {
		t.Error("the end of the other one is answered", err)
	}
}

// TestPartsOutlastTheirKeys: what a session remembers of a part in the claim that its request still has is true, also
// when the key of the part is over: repeats did not come to it, as another log took nothing; or the log of the claim
// stood still, whose clock does so with it. When it is asked again under its id it is answered OK.
func TestPartsOutlastTheirKeys(t *testing.T) {
	again := func(c *wire.Call) { c.Again = true }
	brief := func(c *Config) { keysFor(6000)(c); c.RequestTimeout = time.Second }
	t.Run("the last part is not reached", func(t *testing.T) {
		k := newKeyedOver(t, wire.OpForceRelease, brief)
		s, c := k.steps(), k.session()
		c.session = s.c.Session
		groups, _, err := s.present()
		if err != nil {
			t.Fatal(err)
		}
		cl, err := s.claim(groupList(groups))
		if err == nil {
			err = s.each(groups, &wire.Request{Op: k.op, Owner: k.owner, Key: cl.key})
		}
		if err == nil {
			err = s.home(&wire.Request{Op: wire.OpKillNotice, Owner: k.owner, Key: cl.key})
		}
		if err != nil {
			t.Fatal(err)
		}
		ask := func() wire.Result { return c.startAs(s.c.ID, k.request(), again).get(t, "again") }
		k.passes(4 * time.Second)
		k.b.pauses(true)
		if res := ask(); res.Code != wire.DeadlineExceeded {
			t.Errorf("the second is answered %v %s", res.Code, res.Message)
		}
		k.b.pauses(false)
		k.passes(2500 * time.Millisecond)
		if res := ask(); res.Code != wire.OK {
			t.Errorf("the third is answered %v %s", res.Code, res.Message)
		}
	})
	for _, op := range claimedOps {
		t.Run("the log of the claim stands still, "+op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, brief)
			for k.node.logOf(wire.HomeOf(k.key, k.node.cfg.GroupCount)) != k.b {
				k.key += "y"
			}
			k.other.must(release(k.owner, k.there))
			k.there = k.ns + "/x2"
			k.takes(k.there)
			c, id := k.session(), k.next.Add(1)
			k.a.pauses(true)
			o := c.start(id, k.request())
			queues(t, "its part is queued", k.a)
			k.b.pauses(true)
			k.a.pauses(false)
			if res := o.get(t, "the first"); res.Code != wire.DeadlineExceeded {
				t.Errorf("the first is answered %v %s", res.Code, res.Message)
			}
			k.passes(6500 * time.Millisecond)
			k.b.pauses(false)
			if res := c.startAs(id, k.request(), again).get(t, "again"); res.Code != wire.OK {
				t.Errorf("again: %v %s", res.Code, res.Message)
			}
		})
	}
}

// pauses is the tasks of a node that takes note of what it is to wait for, and waits for next to nothing.
type pauses struct {
	goroutines
	last time.Duration
}

func (p *pauses) wait(d time.Duration, on ...<-chan struct{}) int {
	p.last = d
	return p.goroutines.wait(time.Millisecond, on...)
}

// TestGivesWay: who gives way to another attempt waits longer each time, but for less than a second, and tells how long
// its own attempt took. It does not wait for more than half of its time, and gives up when that is over, or its node
// stops.
func TestGivesWay(t *testing.T) {
	p, c := new(pauses), &testClock{start: time.Now()}
	n := &Node{cfg: Config{RequestTimeout: time.Minute}, clock: c, tasks: p, stop: make(chan struct{})}
	s := &steps{n: n, since: c.Mono()}
	pause := func(took time.Duration) time.Duration {
		t.Helper()
		if !s.giveWay(c.Mono() - took) {
			t.Fatal("it gives up")
		}
		return p.last
	}
	before := time.Duration(0)
	for range 5 {
		if d := pause(0); d <= before {
			t.Errorf("it waits for %v after %v", d, before)
		} else {
			before = d
		}
	}
	for range 50 {
		if d := pause(5 * time.Second); d > time.Second {
			t.Errorf("it waits for %v", d)
		}
	}
	pause(time.Second)
	if s.took < 5*time.Second || s.took > 6*time.Second {
		t.Errorf("it tells that an attempt took %v", s.took)
	}
	s.since -= time.Minute - 200*time.Millisecond
	if d := pause(0); d > 100*time.Millisecond {
		t.Errorf("of 200 ms that are left it waits for %v", d)
	}
	close(n.stop)
	if s.giveWay(c.Mono()) {
		t.Error("it goes on when its node stops")
	}
	n.stop = make(chan struct{})
	if s.since -= time.Minute; s.giveWay(c.Mono()) {
		t.Error("it does not give up when its time is over")
	}
}

// TestOverdueBehindItsClaim: a call stands still behind its claim until its time and that of the key are over, as in a
// process that was stopped. Another one with its key is answered OK meanwhile. What was taken since is not taken away.
func TestOverdueBehindItsClaim(t *testing.T) {
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			h := newHeldCall()
			k := newKeyedOver(t, op, func(c *Config) {
				keysFor(6000)(c)
				c.seams.claimed = h.claimed
				c.RequestTimeout = 2 * time.Second
			})
			slow := h.holds(k.ask)
			if res := k.ask().get(t, "the quick one"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			k.takes(k.here)
			k.passes(6500 * time.Millisecond)
			close(h.goOn)
			if res := slow.get(t, "the slow one"); res.Code != wire.DeadlineExceeded {
				t.Errorf("the slow one is answered %v %s", res.Code, res.Message)
			}
			if !k.held(k.here) {
				t.Error("the slow one took away what was taken since")
			}
		})
	}
}
