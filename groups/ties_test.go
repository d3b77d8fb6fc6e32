package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestMoreTiesThanAreKept: a lease that more sessions tie than it keeps ties of is tied to the
// rest as well, whatever the sessions are called, and ends with no connection of theirs.
func TestMoreTiesThanAreKept(t *testing.T) {
	const ties = 20
	b := newBare(t, firstLogShard, defaultLimits())
	sessions := make([]*wire.Session, ties)
	for i := range sessions {
		sessions[i] = bareSession(i)
	}
	sessions[2].ID = [wire.SessionBytes]byte{} // hello refuses it; a log that has it must go on
	for i, s := range sessions {
		a := bareAsk(s, 1, write("svc", fmt.Sprint("h:/a/x", i), time.Hour))
		a.Bound, a.Grace = true, 1000
		if res := b.one(a); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("session %d: %+v", i, res)
		}
	}
	held := func(when string, want bool) {
		t.Helper()
		if alive := b.m.view(0).Alive("svc", nil); alive != want {
			t.Fatalf("%s the lease is alive: %v", when, alive)
		}
	}
	sum := b.m.groups[0].state.View().Digest()
	if b.reload(); b.m.groups[0].state.View().Digest() != sum {
		t.Error("loaded anew the group is another")
	}
	for _, s := range sessions {
		b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}))
	}
	b.do(10_000)
	held("after all connections ended", true)
	again := bareAsk(later(sessions[5]), 2, &wire.Request{Op: wire.OpRenew, Owner: "svc", TTLMillis: 3_600_000})
	again.Bound, again.Grace = true, 1000
	b.one(again)
	b.reload()
	b.one(bareAsk(later(sessions[5]), 3, &wire.Request{Op: wire.OpReleaseAll, Owner: "svc"}))
	held("after it was released", false)
	b.reload()
}
