package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// waitsOn is an acquire of paths that waits.
func waitsOn(owner string, paths ...string) *wire.Request {
	req := takes(owner, paths[0])
	for _, path := range paths[1:] {
		req.Locks = append(req.Locks, wire.LockRequest{Path: path})
	}
	req.Flags = wire.FlagWait
	return req
}

// slowGraces is newGraces where the step that closes a connection sees to one thing that hangs on it.
func slowGraces(t *testing.T) *graces {
	g := newGraces(t)
	g.slow = true
	g.s = New(g.config(), nil, nil)
	return g
}

// TestGrantBehindDeparture: a wait is granted whose connection has ended, before that has come to it. The lease that
// its owner has already, and that hangs on no connection, is not tied to one that is gone: it would end with the grace.
func TestGrantBehindDeparture(t *testing.T) {
	g := slowGraces(t)
	g.do(1, 1, 1, -1, takes("o", "h:/a/own"))
	g.do(2, 2, 1, -1, takes("other", "h:/a/x"))
	g.do(3, 1, 1, -1, waitsOn("first", "h:/a/x"))
	g.do(4, 1, 1, 1000, waitsOn("o", "h:/a/x"))
	g.detach(5, 1, 1)
	g.do(5, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other",
		Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	if _, locks := g.s.View().List("o", nil); len(locks) != 2 {
		t.Fatalf("it was not granted: %+v", locks)
	}
	for due, ok := g.s.NextDeadline(); ok && due <= 5; due, ok = g.s.NextDeadline() {
		g.s.Expire(Clock{Now: 5}, new(Output))
	}
	g.ends(1 + hourMillis)
}

// TestNoGraceBehindDeparture: who waits without a grace, on a connection that has ended, is granted nothing, also
// before that end has come to it; who waits behind it is.
func TestNoGraceBehindDeparture(t *testing.T) {
	g := slowGraces(t)
	g.do(2, 2, 1, -1, takes("other", "h:/a/x"))
	g.do(3, 1, 1, -1, waitsOn("first", "h:/a/x"))
	g.do(4, 1, 1, 0, waitsOn("gone", "h:/a/x"))
	g.do(4, 3, 1, -1, waitsOn("o", "h:/a/x"))
	g.detach(5, 1, 1)
	g.do(5, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other",
		Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	g.ends(5 + hourMillis)
}

// TestNobodyWaitsBehindDeparture: a wait whose connection has ended keeps nobody waiting, also before that has come
// to it.
func TestNobodyWaitsBehindDeparture(t *testing.T) {
	g := slowGraces(t)
	g.do(1, 2, 1, -1, takes("other", "h:/a/w"))
	g.do(2, 2, 1, -1, takes("other", "h:/a/x"))
	g.do(3, 1, 1, -1, waitsOn("first", "h:/a/w"))
	g.do(4, 1, 1, -1, waitsOn("gone", "h:/a/x", "h:/a/y"))
	g.detach(5, 1, 1)
	now := takes("o", "h:/a/y")
	now.Flags = wire.FlagNoQueue
	if res := g.do(5, 3, 1, -1, now); res.Status != wire.StatusOK {
		t.Errorf("who asks for what it waited for is answered %+v", res)
	}
}

// TestUnboundBehindDeparture: a client comes back and unbinds its owner, before the end of its first connection has
// come to its wait, which keeps its place for the grace, to be asked for once more.
func TestUnboundBehindDeparture(t *testing.T) {
	for _, slow := range []bool{false, true} {
		g := newGraces(t)
		if slow {
			g = slowGraces(t)
		}
		g.do(1, 2, 1, -1, takes("other", "h:/a/w"))
		g.do(2, 2, 1, -1, takes("other", "h:/a/x"))
		g.do(3, 1, 1, -1, waitsOn("first", "h:/a/w"))
		g.do(4, 1, 1, 1000, waitsOn("o", "h:/a/x"))
		g.detach(5, 1, 1)
		g.do(5, 1, 2, -1, &wire.Request{Op: wire.OpUnbind, Owner: "o"})
		for due, ok := g.s.NextDeadline(); ok && due <= 5; due, ok = g.s.NextDeadline() {
			g.s.Expire(Clock{Now: 5}, new(Output))
		}
		if !g.s.Awaits(Caller{Session{1}, 4}) {
			t.Errorf("in small steps %v: the wait is over", slow)
		}
	}
}

// TestLeaseBehindDeparture: a lease whose connection has ended without a grace keeps nobody out, also before that has
// come to it, and is shown to nobody.
func TestLeaseBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 1, 1, 0, takes("a", "h:/a/w"))
		g.do(2, 1, 1, 0, takes("b", "h:/a/x"))
		g.detach(5, 1, 1)
		v := g.s.View()
		if alive, locks := v.List("b", nil); alive || len(locks) > 0 {
			t.Errorf("it is listed, alive %v: %+v", alive, locks)
		}
		if res := v.Inspect("h:/a", "h:/a/x"); res.Owner != "" {
			t.Errorf("%s is shown as the holder", res.Owner)
		}
		if infos := v.Describe("h:/a", "h:/a/x", 10).List.Infos; len(infos) > 0 {
			t.Errorf("it is described as held: %+v", infos)
		}
		now := takes("o", "h:/a/x")
		now.Flags = wire.FlagNoQueue
		if res := g.do(5, 3, 1, -1, now); res.Status != wire.StatusOK {
			t.Errorf("who asks for it is answered %v %v, owner %q", res.Status, res.Reason, res.Owner)
		}
	})
}

// TestGraceShownBehindDeparture: what is left of a lease is what is left of its grace.
func TestGraceShownBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 1, 1, 1000, takes("a", "h:/a/w"))
		g.do(2, 1, 1, 1000, takes("b", "h:/a/x"))
		g.detach(5, 1, 1)
		if _, locks := g.s.View().List("b", nil); len(locks) != 1 || locks[0].ExpiresInMillis != 1000 {
			t.Errorf("%+v", locks)
		}
	})
}

// TestGraceOverBehindDeparture: so it is when there was a grace, and it is over, as the steps of other groups took the
// budget meanwhile.
func TestGraceOverBehindDeparture(t *testing.T) {
	g := slowGraces(t)
	g.do(1, 1, 1, 100, takes("a", "h:/a/v"))
	g.do(1, 1, 1, 100, takes("b", "h:/a/w"))
	g.do(2, 1, 1, 100, takes("c", "h:/a/x"))
	g.detach(5, 1, 1)
	now := takes("o", "h:/a/x")
	now.Flags = wire.FlagNoQueue
	if res := g.do(104, 3, 1, -1, now); res.Status != wire.StatusConflict {
		t.Errorf("within the grace it is answered %v", res.Status)
	}
	if res := g.do(105, 3, 1, -1, now); res.Status != wire.StatusOK {
		t.Errorf("after the grace it is answered %v %v, owner %q", res.Status, res.Reason, res.Owner)
	}
}

// TestPermitsBehindDeparture: how many may hold a semaphore lasts for as long as there are holders or waiters. Who is
// gone is none of them.
func TestPermitsBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		permits := func(owner, path string, n uint32) *wire.Request {
			req := takes(owner, path)
			req.Locks[0].Permits = n
			return req
		}
		g.do(1, 9, 1, -1, &wire.Request{Op: wire.OpSetRow, Namespace: "h:/a", Algorithm: wire.Semaphore,
			Explicit: true})
		g.do(1, 1, 1, 0, permits("a", "h:/a/w", 1))
		g.do(2, 1, 1, 0, permits("b", "h:/a/x", 1))
		g.detach(5, 1, 1)
		if res := g.do(5, 3, 1, -1, permits("o", "h:/a/x", 2)); res.Status != wire.StatusOK {
			t.Errorf("%v %v, in force %q", res.Status, res.Reason, res.Owner)
		}
	})
}

// TestReaderBehindDeparture: the last reader of a path writes it, whoever waits, also when another one read it whose
// connection ended.
func TestReaderBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		reads := func(owner string) *wire.Request {
			req := takes(owner, "h:/a/x")
			req.Locks[0].Mode = wire.ModeRead
			return req
		}
		g.do(1, 1, 1, 0, takes("a", "h:/a/w"))
		g.do(2, 1, 1, 0, reads("b"))
		g.do(3, 3, 1, -1, reads("o"))
		g.do(4, 4, 1, -1, waitsOn("c", "h:/a/x"))
		g.detach(5, 1, 1)
		now := takes("o", "h:/a/x")
		now.Flags = wire.FlagNoQueue
		if res := g.do(5, 3, 1, -1, now); res.Status != wire.StatusOK {
			t.Errorf("%v %v, owner %q", res.Status, res.Reason, res.Owner)
		}
	})
}

// TestMoveBehindDeparture: nor does what is gone keep a routing change from being carried out.
func TestMoveBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 1, 1, 0, takes("a", "h:/a/w"))
		g.do(2, 1, 1, 0, takes("b", "h:/a/x/y"))
		g.detach(5, 1, 1)
		res := g.do(5, 9, 1, -1, &wire.Request{Op: wire.OpFreeze, Namespace: "h:/a/x", Attempt: 1, Target: 2})
		if res.Status != wire.StatusOK {
			t.Errorf("%v is held by %q", res.Path, res.Owner)
		}
	})
}

// TestCancelBehindDeparture: a node that tells of the end of a wait with a grace does not lengthen the one that the end
// of the wait's connection left it.
func TestCancelBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 2, 1, -1, takes("other", "h:/a/x"))
		g.do(2, 1, 1, 10, waitsOn("a", "h:/a/x"))
		g.do(3, 1, 1, 10, waitsOn("o", "h:/a/x"))
		g.detach(5, 1, 1)
		g.do(6, 1, 2, -1, &wire.Request{Op: wire.OpCancelWait, Target: 3, GraceMillis: 500})
		if w := g.s.waiter(g.s.callOf(Caller{Session{1}, 3})); w.deadline != 15 {
			t.Errorf("it keeps its place until %d", w.deadline)
		}
	})
}
