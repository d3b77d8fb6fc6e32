package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestLeaveAfterAGrant: a wait is asked again on the next connection when its namespace has been moved to another group
// of the same log, and is granted there, or waits; then the old group is told to leave, and ends the place of the
// earlier connection. The next repeat is answered by what became of the one in the new group.
func TestLeaveAfterAGrant(t *testing.T) {
	for _, granted := range []bool{true, false} {
		t.Run(fmt.Sprint("granted ", granted), func(t *testing.T) { leaveAfterAGrant(t, granted) })
	}
}

func leaveAfterAGrant(t *testing.T, granted bool) {
	b := newBareOf(t, rows.FirstLog, DefaultLimits(), 0, 1) // two groups of one log
	one := func(a *bareCall, number uint16, ns string, version uint64) *bareCall {
		t.Helper()
		a.to, a.ns, a.version = number, ns, version
		b.do(1, a)
		return a
	}
	const parent, root = "h:/a", "h:/a/b"
	s := bareSession(2)
	one(bareAsk(bareSession(1), 1, write("holder", parent+"/y", time.Hour)), 0, parent, 0)
	first := waiting(write("first", root+"/x", time.Hour)) // waits for both, so that who comes behind it waits too
	first.Locks = append(first.Locks, wire.LockRequest{Path: parent + "/y"})
	one(bareAsk(bareSession(3), 1, first), 0, parent, 0)
	req := waiting(write("o", root+"/x", time.Hour))
	if a := one(bareAsk(s, 7, req), 0, parent, 0); len(a.queued) != 1 {
		t.Fatalf("%+v", a)
	}

	// set_namespace_policy of h:/a/b, as policies.go carries it out.
	step := func(number uint16, r *wire.Request, ns string) {
		t.Helper()
		r.Namespace, r.Attempt, r.Target = root, 1, 1
		a := bareAsk(nil, 0, r)
		if one(a, number, ns, 1); len(a.res) != 1 || a.res[0].Code != wire.OK || a.res[0].Status != wire.StatusOK {
			t.Fatalf("%v is answered %+v", r.Op, a.res)
		}
	}
	step(1, &wire.Request{Op: wire.OpFreeze}, "")
	step(0, &wire.Request{Op: wire.OpFreeze}, parent)
	step(1, &wire.Request{Op: wire.OpOpen, Token: 100, Explicit: true}, root)
	// Here it is committed: the routes have changed. The connection broke, and the client comes back and asks again.
	if !granted { // somebody was faster
		one(bareAsk(bareSession(4), 1, write("faster", root+"/x", time.Hour)), 1, root, 1)
		step(1, &wire.Request{Op: wire.OpLeave}, "") // who waits there by then is told to ask again
	}
	s = later(s)
	a := one(bareAsk(s, 7, req), 1, root, 1)
	if granted {
		step(1, &wire.Request{Op: wire.OpLeave}, "")
	}
	step(0, &wire.Request{Op: wire.OpLeave}, "")
	// What it is answered is lost with that connection.
	s = later(s)
	again := one(bareAsk(s, 7, req), 1, root, 1)
	if !granted {
		if len(a.res) != 1 || a.res[0].Code != wire.Aborted || len(again.res) != 0 { // a has been asked again
			t.Fatalf("it waits, and is answered %+v and %+v", a.res, again.res)
		}
		one(bareAsk(bareSession(4), 2, release("faster", root+"/x")), 1, root, 1)
		s = later(s)
		again = one(bareAsk(s, 7, req), 1, root, 1)
	}
	if owner := b.m.View(1).Inspect(root, root+"/x").Owner; owner != "o" {
		t.Fatalf("it is held by %q", owner)
	}
	if len(again.res) != 1 || again.res[0].Code != wire.OK || again.res[0].Status != wire.StatusOK ||
		again.res[0].Token == 0 {
		t.Errorf("it was granted and is held, and its repeat is answered %+v", again.res)
	}
}
