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
	g.do(5, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
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
	g.do(5, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
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
