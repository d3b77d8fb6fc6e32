package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestToldBeforeItsBatch: of the two requests of a batch one waited too long and was told that its outcome is not
// known, before the batch is applied. It is told nothing more, and its call may be used again by then; the other is
// answered, and both are carried out.
func TestToldBeforeItsBatch(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	late, inTime := bareAsk(bareSession(1), 1, write("o", "h:/a/x", time.Hour)),
		bareAsk(bareSession(2), 1, write("p", "h:/a/y", time.Hour))
	b.now++
	entry, parts := b.batch([]*bareCall{late, inTime})
	f := &inFlight{leaderEpoch: b.own, number: b.number, parts: parts}
	b.l.mu.batches[b.number] = f
	if gone := f.forget(func(p *part) bool { return p.call == &late.Call }); len(gone) != 1 {
		t.Fatalf("%d are let go of", len(gone))
	}
	b.entry(entry)
	if len(late.res) != 0 {
		t.Errorf("who was told is told %+v as well", late.res)
	}
	if len(inTime.res) != 1 || inTime.res[0].Status != wire.StatusOK {
		t.Errorf("the other is told %+v", inTime.res)
	}
	for _, path := range []string{"h:/a/x", "h:/a/y"} {
		if res := b.one(bareAsk(bareSession(3), b.number, write("q", path, time.Hour))); res.Status == wire.StatusOK {
			t.Errorf("%s is not locked", path)
		}
	}
}
