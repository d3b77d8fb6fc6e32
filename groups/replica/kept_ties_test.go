package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestMoreTiesThanAreKept: a lease that more sessions tie than it keeps ties of is tied to the
// rest as well, whatever the sessions are called, and ends with no connection of theirs.
func TestMoreTiesThanAreKept(t *testing.T) {
	const ties = 20
	b := newBare(t, rows.FirstLog, DefaultLimits())
	sessions := make([]*wire.Session, ties)
	for i := range sessions {
		sessions[i] = bareSession(i)
	}
	sessions[2].ID = [wire.SessionBytes]byte{} // hello refuses it; a log that has it must go on
	for i, s := range sessions {
		a := tied(s, 1, write("svc", fmt.Sprint("h:/a/x", i), time.Hour), 1000)
		if res := b.one(a); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("session %d: %+v", i, res)
		}
	}
	held := func(when string, want bool) {
		t.Helper()
		if alive := b.m.View(0).Alive("svc", nil); alive != want {
			t.Fatalf("%s the lease is alive: %v", when, alive)
		}
	}
	sum := b.m.Groups[0].State.View().Digest()
	if b.reload(); b.m.Groups[0].State.View().Digest() != sum {
		t.Error("loaded anew the group is another")
	}
	for _, s := range sessions {
		b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}))
	}
	b.do(10_000)
	held("after all connections ended", true)
	again := tied(later(sessions[5]), 2, &wire.Request{Op: wire.OpRenew, Owner: "svc", TTLMillis: 3_600_000}, 1000)
	b.one(again)
	b.reload()
	b.one(bareAsk(later(sessions[5]), 3, &wire.Request{Op: wire.OpReleaseAll, Owner: "svc"}))
	held("after it was released", false)
	b.reload()
}

// tied is a request whose lease is to hang on the connection, with a grace in ms.
func tied(s *wire.Session, id uint64, req *wire.Request, grace int64) *bareCall {
	a := bareAsk(s, id, req)
	a.Bound, a.Grace = true, uint64(grace)
	return a
}

// TestGraceOfEachTie: two sessions of one owner tie its lease with graces of their own. Whichever
// connection ends last, and whenever it tied the lease, the lease lasts for what was left to the
// other by then, and that one can come back and renew; and it lasts no longer.
func TestGraceOfEachTie(t *testing.T) {
	const long, short = 60_000, 100
	for _, c := range []struct {
		name          string
		first, second int64 // graces
		late          bool  // the second ties the lease when the first one's connection has ended
	}{
		{"the first has the long one", long, short, false},
		{"the second has the long one", short, long, false},
		{"the first has the long one, and has gone before", long, short, true},
		{"the second has the long one, and ties when the first has gone", short, long, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			first, second := bareSession(1), bareSession(2)
			holds := func(when string, want bool) {
				t.Helper()
				b.do(1) // what is due ends
				if alive := b.m.View(0).Alive("svc", nil); alive != want {
					t.Fatalf("%s the lease is alive: %v", when, alive)
				}
			}
			b.one(tied(first, 1, write("svc", "h:/n/first", time.Hour), c.first))
			take := func() { b.one(tied(second, 1, write("svc", "h:/n/second", time.Hour), c.second)) }
			if !c.late {
				take()
			}
			b.do(1, bareAsk(first, 0, &wire.Request{Op: wire.OpDetach}))
			if c.late {
				take()
			}
			b.reload()
			b.do(1, bareAsk(second, 0, &wire.Request{Op: wire.OpDetach}))
			b.reload()
			b.do(long - 1000)
			holds("within the longer grace", true)
			back := first
			if c.second == long {
				back = second
			}
			back = later(back)
			renew := &wire.Request{Op: wire.OpRenew, Owner: "svc", TTLMillis: 3_600_000}
			if res := b.one(tied(back, 2, renew, long)); res.Status != wire.StatusOK {
				t.Fatalf("who is back within its grace is answered %+v", res)
			}
			b.do(2 * long)
			holds("since it was renewed", true)
			b.do(1, bareAsk(back, 0, &wire.Request{Op: wire.OpDetach}))
			b.do(long - 1000)
			holds("within the grace of the last", true)
			b.do(1000)
			holds("after that", false)
		})
	}
}

// TestPolledPlaceOfAnEndedConnection: a polled place that was to be tied to a connection keeps its
// place when that ends. What it is granted then lasts for no more than the grace, unless its
// session has come back and asked again.
func TestPolledPlaceOfAnEndedConnection(t *testing.T) {
	const grace = 1000
	for name, back := range map[string]bool{"the session is gone": false, "it asks again": true} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			holder, s := bareSession(1), bareSession(2)
			b.one(bareAsk(holder, 1, write("holder", "h:/a/x", time.Hour)))
			if res := b.one(tied(s, 1, write("polls", "h:/a/x", time.Hour), grace)); res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
			b.reload()
			b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}))
			b.reload()
			b.do(3 * grace)
			if back {
				b.one(tied(later(s), 2, write("polls", "h:/a/x", time.Hour), grace))
			}
			b.one(bareAsk(holder, 2, release("holder", "h:/a/x")))
			owner := func() string { return b.m.View(0).Inspect("h:/a", "h:/a/x").Owner }
			if got := owner(); got != "polls" {
				t.Fatalf("the place is lost: the path is held by %q", got)
			}
			b.do(grace + 1)
			b.do(1)
			if got := owner() == "polls"; got != back {
				t.Errorf("after the grace it holds the path: %v", got)
			}
		})
	}
}
