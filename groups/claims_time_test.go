package groups

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// keyedOver is a request with a key about what an owner holds in two logs, one of which looks after the owner and the
// key, too.
type keyedOver struct {
	*rig
	op          wire.Op
	a, b        *shardLog
	ns          string // namespace in a
	here, there string // what is held there, and in b
	owner, key  string
	other       *caller // who took it
}

func newKeyedOver(t *testing.T, op wire.Op, adjust func(*Config)) *keyedOver {
	t.Helper()
	k := &keyedOver{rig: newRig(t, adjust), op: op, owner: "o", key: "k"}
	ns := k.apart("h", 8)
	k.a = k.node.logOf(k.node.groupOf(ns[0]))
	i := 1
	for k.node.logOf(k.node.groupOf(ns[i])) == k.a {
		i++
	}
	k.b = k.node.logOf(k.node.groupOf(ns[i]))
	for _, name := range []*string{&k.owner, &k.key} {
		for k.node.logOf(wire.HomeOf(*name, k.node.cfg.GroupCount)) != k.a {
			*name += "x"
		}
	}
	k.ns, k.here, k.there = ns[0], ns[0]+"/x", ns[i]+"/x"
	k.other = k.session()
	k.takes(k.here)
	k.takes(k.there)
	return k
}

// takes has the owner take a path.
func (k *keyedOver) takes(path string) { k.other.must(write(k.owner, path, time.Hour)) }

// passes has so much time pass in the first log: its clock goes on with its entries.
func (k *keyedOver) passes(d time.Duration) {
	const step = 500 * time.Millisecond
	for ; d > 0; d -= step {
		k.clock.hurry(min(d, step))
		k.other.must(write("else", k.ns+"/else", time.Hour))
	}
}

// held says whether the owner holds a path.
func (k *keyedOver) held(path string) bool { return k.other.inspect(path).Owner == k.owner }

func (k *keyedOver) request() *wire.Request {
	req := &wire.Request{Op: k.op, Owner: k.owner, Key: k.key}
	if k.op == wire.OpRelease {
		req.Releases = []wire.ReleaseRequest{{Path: k.here}, {Path: k.there}}
	}
	return req
}

// ask has a session of its own ask it.
func (k *keyedOver) ask() *outcome { return k.session().start(k.next.Add(1), k.request()) }

// steps is the request on its way, in a session of its own.
func (k *keyedOver) steps() *steps {
	c := &wire.Call{Op: k.op, ID: k.next.Add(1), Session: k.session().session}
	return &steps{n: k.node, c: c, req: k.request(), since: k.clock.Mono()}
}

// claims has a call make an attempt of its claim, once it is its turn.
func (k *keyedOver) claims(s *steps, plan []byte) (claim, *wire.Error) {
	for range 10 {
		if c, err := s.claim(plan); err != errSuperseded {
			return c, err
		}
		k.passes(100 * time.Millisecond)
	}
	return claim{}, errSuperseded
}

// takenUpTo waits until all of the request is carried out but for what the second log, which is paused, is to do.
func (k *keyedOver) takenUpTo(t *testing.T) {
	t.Helper()
	queues(t, "its part is queued", k.b)
	eventually(t, "the part before it is carried out", func() bool { return !k.held(k.here) })
}

// claimedOps are the operations that may be claimed, but for renewals.
var claimedOps = []wire.Op{wire.OpReleaseAll, wire.OpForceRelease, wire.OpRelease}

// TestClaimIsKeptFromItsAnswer: the first answer to a key is kept for 300 s (PROTOCOL.md). A request with a key is
// cut short, as a log takes nothing; asked again with the key it is answered, late in the key's time. Asked once
// more, by another session and sooner after that answer than keys are kept, it is not carried out a second time.
func TestClaimIsKeptFromItsAnswer(t *testing.T) {
	const kept = 6 * time.Second
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, func(c *Config) {
				keysFor(int(kept.Milliseconds()))(c)
				c.RequestTimeout = time.Second
			})
			k.b.pauses(true)
			if res := k.ask().get(t, "the first"); res.Code == wire.OK {
				t.Fatalf("%+v", res)
			}
			k.passes(4 * time.Second)
			k.b.pauses(false)
			if res := k.ask().get(t, "asked again"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			answered := k.clock.Mono()
			k.takes(k.here)
			k.passes(2500 * time.Millisecond)
			res := k.ask().get(t, "asked once more")
			if since := k.clock.Mono() - answered; !k.held(k.here) && since < kept {
				t.Errorf("%v after it was answered OK, with keys kept for %v, it took away what was taken since: %v",
					since, kept,
					res.Code)
			}
		})
	}
}

// TestPartsAreKeptOn: a keyed request is cut short. Late in the key's time two sessions ask it again: one of them is
// slow, as a node whose way to a leader is, and has got no further than its claim when the time of its first part is
// over. The other one is answered OK by then. The part that the slow one asks for is not carried out a second time.
func TestPartsAreKeptOn(t *testing.T) {
	const kept = 6 * time.Second
	k := newKeyedOver(t, wire.OpReleaseAll, func(c *Config) {
		keysFor(int(kept.Milliseconds()))(c)
		c.RequestTimeout = 3 * time.Second
	})
	k.b.pauses(true)
	began := k.clock.Mono()
	if res := k.ask().get(t, "the first"); res.Code == wire.OK {
		t.Fatalf("%+v", res)
	}
	k.passes(began + kept - 800*time.Millisecond - k.clock.Mono())
	slow := k.steps()
	cl, err := slow.claim(nil)
	if err != nil || cl.done {
		t.Fatal(cl, err)
	}
	quick := k.ask()
	k.takenUpTo(t)
	k.passes(1200 * time.Millisecond)
	k.b.pauses(false)
	if res := quick.get(t, "the quick one"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	k.takes(k.here)
	k.late(t, slow, cl)
}

// late has a call carry out its part in the first log, after another call with its key was answered OK, and the owner
// has taken there anew: that is not taken away.
func (k *keyedOver) late(t *testing.T, s *steps, cl claim) {
	t.Helper()
	req := &wire.Request{Op: k.op, Owner: k.owner, Key: cl.key}
	if err := s.each([]uint16{k.node.groupOf(k.ns)}, req); err != errSuperseded {
		t.Errorf("the slow one is not refused: %v", err)
	}
	if !k.held(k.here) {
		t.Error("the slow one took away what was taken after the quick one was answered OK")
	}
}

// TestFreshUseOfAKey: a keyed request is cut short, and a part of it is done. When the time of its key is over the
// owner takes the path again, and another session uses the key anew, and is slow. Then the first one asks again under
// its id. What it did counts for nothing in the fresh use, which is carried out as a whole.
func TestFreshUseOfAKey(t *testing.T) {
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			h := newHeldCall()
			k := newKeyedOver(t, op, func(c *Config) {
				keysFor(6000)(c)
				c.seams.claimed = h.claimed
				c.RequestTimeout = time.Second
			})
			k.b.pauses(true)
			c, id := k.session(), k.next.Add(1)
			if res := c.start(id, k.request()).get(t, "the first"); res.Code == wire.OK {
				t.Fatalf("%+v", res)
			}
			k.b.pauses(false)
			k.passes(6500 * time.Millisecond)
			k.takes(k.here)
			fresh := h.holds(k.ask)
			again := func(c *wire.Call) { c.Again = true }
			if res := c.startAs(id, k.request(), again).get(t, "the same id again"); res.Code != wire.Forgotten {
				t.Errorf("the id again is answered %v %s", res.Code, res.Message)
			}
			if !k.held(k.here) {
				t.Error("the id again took away what was taken since")
			}
			close(h.goOn)
			if res := fresh.get(t, "the fresh one"); res.Code != wire.OK {
				t.Fatalf("%v %s", res.Code, res.Message)
			}
			if k.held(k.here) {
				t.Error("the fresh use is answered OK, and what it was to give back is held")
			}
		})
	}
}

// TestClaimOutlastsARepeat: a keyed request is cut short. Late in the key's time it is asked again, and that takes
// until the time that the key had at first is over. Who asks then has the same claim: it carries out no part that the
// other one did, after its OK.
func TestClaimOutlastsARepeat(t *testing.T) {
	k := newKeyedOver(t, wire.OpReleaseAll, func(c *Config) { keysFor(6000)(c); c.RequestTimeout = 3 * time.Second })
	k.b.pauses(true)
	began := k.clock.Mono()
	if res := k.ask().get(t, "the first"); res.Code == wire.OK {
		t.Fatalf("%+v", res)
	}
	k.passes(began + 5200*time.Millisecond - k.clock.Mono())
	quick := k.ask()
	k.takenUpTo(t)
	k.passes(1200 * time.Millisecond)
	slow := k.steps()
	cl, err := k.claims(slow, groupList([]uint16{k.node.groupOf(k.ns)}))
	if err != nil || cl.done {
		t.Fatal(cl, err)
	}
	k.b.pauses(false)
	if res := quick.get(t, "the quick one"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	k.takes(k.here)
	k.late(t, slow, cl)
}

// TestNoticeOfMemoryIsKept: the notice of a force_release is asked for again, by its session under its id, late in
// the key's time. Who asks for it after that does not tell the owner a second time, which would drop the wait edges
// that it has set since.
func TestNoticeOfMemoryIsKept(t *testing.T) {
	k := newKeyedOver(t, wire.OpForceRelease, keysFor(6000))
	notice := func(s *steps) {
		t.Helper()
		cl, err := s.claim(nil)
		if err != nil || cl.done {
			t.Fatal(cl, err)
		}
		if err := s.home(&wire.Request{Op: wire.OpKillNotice, Owner: k.owner, Key: cl.key}); err != nil {
			t.Fatal(err)
		}
	}
	first := k.steps()
	notice(first)
	k.passes(4 * time.Second)
	notice(first)
	k.passes(2500 * time.Millisecond)
	k.other.must(&wire.Request{Op: wire.OpSetWaitEdge, Owner: k.owner, Blocker: k.owner, TTLMillis: 3_600_000})
	edge := func() bool {
		return k.other.must(&wire.Request{Op: wire.OpDetectCycle, Owner: k.owner, Depth: 1}).Cycle == wire.CycleFound
	}
	if !edge() {
		t.Fatal("no edge")
	}
	if notice(k.steps()); !edge() {
		t.Error("the owner is told again, and its wait edge is dropped")
	}
}

// heldCall keeps one call back when it has its claim, as a node does whose way to a leader is slow.
type heldCall struct {
	armed      atomic.Bool
	held, goOn chan struct{}
}

func newHeldCall() *heldCall { return &heldCall{held: make(chan struct{}), goOn: make(chan struct{})} }

// claimed is told of calls that have their claims.
func (h *heldCall) claimed() {
	if h.armed.Swap(false) {
		close(h.held)
		<-h.goOn
	}
}

// holds has the next call be asked, and be kept back.
func (h *heldCall) holds(ask func() *outcome) *outcome {
	h.armed.Store(true)
	o := ask()
	<-h.held
	return o
}

// TestDomainsAreResolvedBeforeTheClaim: a release_all with a key names a path, and is asked by two sessions. One is
// slow between its claim and its parts, the other is answered OK. Then the path becomes a namespace of its own, or is
// none any more, in a group in which the owner has something else, and the owner takes a lock there. The slow one
// does not take it away.
func TestDomainsAreResolvedBeforeTheClaim(t *testing.T) {
	for name, deleted := range map[string]bool{"set": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			h := newHeldCall()
			r := newRig(t, func(c *Config) {
				briefKeys(c)
				c.stated = nil // keys are kept for 300 s
				c.seams.claimed = h.claimed
			})
			n := r.node
			lA, gA := n.logOf(n.groupOf("h:/a")), n.groupOf("h:/a")
			nested := firstName("h:/a/b%d", func(ns string) bool { // in another group of the same log
				return n.groupOf(ns) != gA && n.logOf(n.groupOf(ns)) == lA
			})
			near := firstName("g:/s%d", func(ns string) bool { return n.groupOf(ns) == n.groupOf(nested) })
			other := r.session()
			if deleted {
				other.must(setPolicy(nested, wire.RecursiveRW))
			}
			other.must(write("o", "h:/a/x", time.Hour))
			other.must(write("o", near+"/z", time.Hour))
			ask := func() *outcome {
				req := &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k", Domains: []string{nested}}
				return r.session().start(r.next.Add(1), req)
			}
			slow := h.holds(ask)
			if res := ask().get(t, "the quick one"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			if deleted {
				other.must(&wire.Request{Op: wire.OpDeletePolicy, Namespace: nested})
			} else {
				other.must(setPolicy(nested, wire.RecursiveRW))
			}
			other.must(write("o", nested+"/y", time.Hour))
			close(h.goOn)
			if res := slow.get(t, "the slow one"); res.Code != wire.OK {
				t.Errorf("the slow one is answered %v %s", res.Code, res.Message)
			}
			if holder := other.inspect(nested + "/y").Owner; holder != "o" {
				t.Errorf("the slow one took away what was taken after the quick one was answered OK: held by %q",
					holder)
			}
		})
	}
}

// TestEndOfAClaimTakesNoPlace: as all parts of a request with a key are carried out, the group of the key has no
// place left. The request is answered OK: it was let in, and were its end refused, its key would be forgotten before
// its time.
func TestEndOfAClaimTakesNoPlace(t *testing.T) {
	for _, op := range []wire.Op{wire.OpReleaseAll, wire.OpRelease} {
		t.Run(op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, func(c *Config) { c.MaxInflight = 1 })
			k.b.pauses(true)
			first := k.ask()
			k.takenUpTo(t)
			count := &k.node.inflight[k.node.slot(wire.HomeOf(k.key, k.node.cfg.GroupCount))]
			eventually(t, "its group has a place", func() bool { return count.Load() == 0 })
			count.Add(1)
			k.b.pauses(false)
			res := first.get(t, op.String())
			count.Add(-1)
			if res.Code != wire.OK {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
		})
	}
}

// TestNoticeIsNotTheEnd: a force_release with a key has told who it took the locks from, in the log that looks after
// its key, too, and gets no further. That is not taken for the end of it when it is asked again under its id: its
// claim is not done.
func TestNoticeIsNotTheEnd(t *testing.T) {
	k := newKeyedOver(t, wire.OpForceRelease, nil)
	s := k.steps()
	cl, err := s.claim(nil)
	if err != nil || cl.done {
		t.Fatal(cl, err)
	}
	if err := s.home(&wire.Request{Op: wire.OpKillNotice, Owner: k.owner, Key: cl.key}); err != nil {
		t.Fatal(err)
	}
	s.c.Again = true
	if done, err := s.wasDone(); done || err != nil {
		t.Errorf("done %v: %v", done, err)
	}
	if err := s.ends(cl, nil); err != nil {
		t.Fatal(err)
	}
	if done, err := s.wasDone(); !done || err != nil {
		t.Errorf("at its end, done %v: %v", done, err)
	}
}
