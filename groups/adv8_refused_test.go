package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8RefusedPolicyRepeated: a policy change was refused, its session asked more after it, and the connection broke before the
// answers came; its repeat is not answered as before but accepted as a new change, and is carried out behind what was asked after it.
// PROTOCOL section 3: the server "carries out what it has not, and answers the rest as it did before"; decision 0006: of refusals "the
// latest of a session is carried out anew, an earlier one answered again".
func TestAdv8RefusedPolicyRepeated(t *testing.T) {
	b := newBare(t, systemShard, defaultLimits())
	s := bareSession(2)
	finish := func(id, attempt uint64, detail string) {
		b.do(1, bareAsk(nil, 0, &wire.Request{Op: wire.OpRouteFinish, Target: id, Attempt: attempt, Detail: detail}))
	}
	set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.PointRW}
	first := bareAsk(s, 5, set)
	b.do(1, first)
	ready := b.m.system.Ready()
	if len(ready) != 1 {
		t.Fatalf("%d changes are under way", len(ready))
	}
	finish(ready[0].ID, 1, "it is locked")
	if len(first.res) != 1 || first.res[0].Code != wire.FailedPrecondition {
		t.Fatalf("the change is answered %+v", first.res)
	}
	// What the session asks then: another algorithm, which is carried out.
	other := bareAsk(s, 6, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.Semaphore})
	b.do(1, other)
	finish(b.m.system.Ready()[0].ID, 2, "")
	if len(other.res) != 1 || other.res[0].Code != wire.OK {
		t.Fatalf("the next one is answered %+v", other.res)
	}
	again := bareAsk(later(s), 5, set)
	b.do(1, again)
	if under := b.m.system.Ready(); len(under) > 0 {
		t.Errorf("the repeat of a change that was refused is taken for a new one: %v of %s to %v is carried out behind request 6",
			under[0].Op, under[0].Root, under[0].Algorithm)
	}
}
