package replica

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestJoinedChangeIsNoNewOne: a policy change with a key may join the one that is under way with that key, of an
// earlier session of its client say. It is refused with that, and remembered to be: its repeat, behind what its session
// asked since, is answered again and undoes nothing (PROTOCOL.md section 3, docs/decisions/0006).
func TestJoinedChangeIsNoNewOne(t *testing.T) {
	b := newBare(t, rows.SystemLog, DefaultLimits())
	finish := func(attempt uint64, detail string) {
		t.Helper()
		ready := b.m.System.Ready()
		if len(ready) != 1 {
			t.Fatalf("%d changes are under way", len(ready))
		}
		b.do(1, bareAsk(nil, 0, &wire.Request{Op: wire.OpRouteFinish, Target: ready[0].ID, Attempt: attempt,
			Detail: detail}))
	}
	set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.PointRW, Key: "k"}
	first := bareAsk(bareSession(1), 5, set) // by a session that is lost
	b.do(1, first)
	s := bareSession(2)
	joins := bareAsk(s, 5, set) // its client repeats it by its key
	b.do(1, joins)
	finish(1, "it is locked")
	if len(joins.res) != 1 || joins.res[0].Code != wire.FailedPrecondition {
		t.Fatalf("the change is answered %+v", joins.res)
	}
	// That answer is lost with the connection, but not the next request, which was sent behind it.
	other := bareAsk(s, 6, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.Semaphore})
	b.do(1, other)
	finish(2, "")
	if len(other.res) != 1 || other.res[0].Code != wire.OK {
		t.Fatalf("the next one is answered %+v", other.res)
	}
	again := bareAsk(later(s), 5, set)
	b.do(1, again)
	for _, i := range b.m.System.Ready() {
		t.Errorf("the repeat of request 5 is taken for a new one: %v of %s to %v is carried out behind request 6", i.Op,
			i.Root, i.Algorithm)
	}
	if len(again.res) != 1 || again.res[0].Code != wire.FailedPrecondition {
		t.Errorf("the repeat is answered %+v", again.res)
	}
}
