package replica

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRestoredWait: a backup has waits, and no sessions. Once it is restored, a client asks again for the wait that it
// had, and waits for longer than a session that asks nothing is remembered. It is granted, its connection breaks
// before it hears of that, and its owner is killed. Its repeat is answered LOST and takes nothing (PROTOCOL.md,
// sessions and repeats: a session is remembered for as long as it waits; an acquire whose locks are gone answers LOST).
// And a replica that was restarted meanwhile is as the others.
func TestRestoredWait(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBare(t, rows.FirstLog, DefaultLimits())
		const path = "h:/a/x"
		s := bareSession(2)
		b.one(bareAsk(bareSession(1), 1, write("holder", path, time.Hour)))
		req := waiting(write("o", path, time.Hour))
		req.QueueTTLMillis = uint64(time.Hour.Milliseconds())
		b.one(bareAsk(s, 7, req))
		b.restored()

		s = later(s)
		if res := b.one(bareAsk(s, 7, req)); res.Status != wire.StatusQueued {
			t.Fatalf("it is asked again, and answered %+v", res)
		}
		if restarted {
			b.reload()
		}
		b.do(2 * rememberMillis)
		b.one(bareAsk(bareSession(3), 1, release("holder", path)))
		if owner := b.m.View(0).Inspect("h:/a", path).Owner; owner != "o" {
			t.Fatalf("it is held by %q", owner)
		}
		b.one(bareAsk(bareSession(4), 1, &wire.Request{Op: wire.OpForceRelease, Owner: "o"}))
		if res := b.one(bareAsk(later(s), 7, req)); res.Status != wire.StatusLost {
			t.Errorf("restarted %v: it was granted and killed, and its repeat is answered %+v", restarted, res)
		}
	}
}

// restored has the machine go on from what a backup of it would have: there are no sessions in it.
func (b *bare) restored() {
	b.t.Helper()
	if err := b.m.Checkpoint(false); err != nil {
		b.t.Fatal(err)
	}
	head := LogKey(b.m.Shard, 's', nil)
	if err := b.m.Store.db.DeleteRange(head, upper(head), pebble.NoSync); err != nil {
		b.t.Fatal(err)
	}
	if err := b.m.Load(); err != nil {
		b.t.Fatal(err)
	}
}
