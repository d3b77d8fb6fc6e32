package replica

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedThenQueued: a waiting acquire is refused as there is no room in the queue, and has a place when it is
// asked again on the next connection. Asked once more, behind other requests, it is told its place, and not what it was
// answered first: whoever is told that nothing was done does not expect the grant.
func TestRefusedThenQueued(t *testing.T) {
	l := DefaultLimits()
	l.MaxQueued = 4 // a quarter of it an owner
	b := newBare(t, rows.FirstLog, l)
	b.one(bareAsk(bareSession(1), 1, write("holder", "h:/a/x", time.Hour)))
	first := bareSession(2)
	b.one(bareAsk(first, 1, waiting(write("o", "h:/a/x", time.Hour))))
	s := bareSession(3)
	ask := func() wire.Result {
		return b.one(bareAsk(s, 1, waiting(write("o", "h:/a/x", time.Hour))))
	}
	if res := ask(); res.Code != wire.ResourceExhausted {
		t.Fatalf("without room it is answered %+v", res)
	}
	gone := release("o", "h:/a/x")
	gone.Target = 1
	b.one(bareAsk(first, 2, gone)) // takes the other one's wait back
	s = later(s)
	if res := ask(); res.Code != wire.OK || res.Status != wire.StatusQueued {
		t.Fatalf("there is room: %+v", res)
	}
	b.one(bareAsk(s, 2, write("o", "h:/b/x", time.Hour)))
	s = later(s)
	if res := ask(); res.Code != wire.OK || res.Status != wire.StatusQueued {
		t.Errorf("it waits, and is told %+v", res)
	}
}
