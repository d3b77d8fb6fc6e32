package replica

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedChangeIsNoNewOne: a policy change that was refused is answered so again when its session has asked
// more since, and is not taken for a new one that would undo that. The latest of a session is carried out anew.
func TestRefusedChangeIsNoNewOne(t *testing.T) {
	b := newBare(t, rows.SystemLog, DefaultLimits())
	s := bareSession(2)
	finish := func(id, attempt uint64, detail string) {
		b.do(1, bareAsk(nil, 0, &wire.Request{Op: wire.OpRouteFinish, Target: id, Attempt: attempt, Detail: detail}))
	}
	set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.PointRW}
	first := bareAsk(s, 5, set)
	b.do(1, first)
	ready := b.m.System.Ready()
	if len(ready) != 1 {
		t.Fatalf("%d changes are under way", len(ready))
	}
	finish(ready[0].ID, 1, "it is locked")
	if len(first.res) != 1 || first.res[0].Code != wire.FailedPrecondition {
		t.Fatalf("the change is answered %+v", first.res)
	}
	latest := bareAsk(later(s), 5, set)
	b.do(1, latest)
	if ready = b.m.System.Ready(); len(ready) != 1 {
		t.Fatalf("the latest of its session is answered %+v, and not carried out anew", latest.res)
	}
	again := bareAsk(later(s), 5, set)
	b.do(1, again) // joins it
	if n := len(b.m.System.Ready()); n != 1 || len(again.res) != 0 {
		t.Fatalf("%d changes are under way, and a repeat is answered %+v", n, again.res)
	}
	finish(ready[0].ID, 2, "it is locked")
	s = later(s)
	// What the session asks then: another algorithm, which is carried out.
	other := bareAsk(s, 6, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.Semaphore})
	b.do(1, other)
	finish(b.m.System.Ready()[0].ID, 3, "")
	if len(other.res) != 1 || other.res[0].Code != wire.OK {
		t.Fatalf("the next one is answered %+v", other.res)
	}
	again = bareAsk(later(s), 5, set)
	b.do(1, again)
	if under := b.m.System.Ready(); len(under) > 0 {
		t.Errorf("the repeat is taken for a new one: %v of %s to %v is carried out behind request 6",
			under[0].Op, under[0].Root, under[0].Algorithm)
	}
	if len(again.res) != 1 || again.res[0].Code != wire.FailedPrecondition {
		t.Errorf("the repeat is answered %+v", again.res)
	}
	b.reload()
	again = bareAsk(later(later(s)), 5, set)
	if res := b.one(again); res.Code != wire.FailedPrecondition {
		t.Errorf("the repeat after a restart is answered %+v", res)
	}
	if res := b.one(bareAsk(later(later(s)), 6, other.Req)); res.Code != wire.OK {
		t.Errorf("the repeat of the one that was carried out is answered %+v", res)
	}
}
