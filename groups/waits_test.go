package groups

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// crowded is the open waits of so many sessions, two each.
func crowded(sessions int) (w *openWaits, of func(int) engine.Session) {
	w = new(openWaits)
	of = func(i int) (id engine.Session) {
		binary.BigEndian.PutUint64(id[:], uint64(i))
		return id
	}
	for i := range sessions {
		s := &wire.Session{ID: of(i), Epoch: 1}
		w.add(&part{Command: replica.Command{Session: s, ID: 1}})
		w.add(&part{Command: replica.Command{Session: s, ID: 2}})
	}
	return w, of
}

// TestClosingLooksAtItsOwnWaits: a connection that closes finds what it waits for at the same
// cost among few waits of a node and among very many.
func TestClosingLooksAtItsOwnWaits(t *testing.T) {
	cost := func(sessions int) time.Duration {
		w, of := crowded(sessions)
		best := time.Hour
		for i := range 20 {
			began := time.Now()
			ended := w.endAll(of(i), func(*part) (uint64, bool) { return 7, true })
			best = min(best, time.Since(began))
			if len(ended) != 2 {
				t.Fatalf("%d waits of a session are ended, it has two", len(ended))
			}
			for _, e := range ended {
				p := w.get(engine.Caller{Session: of(i), ID: e.id})
				if over, ok := w.ended(p); !ok || over.grace != 7 || over.cancel {
					t.Fatalf("wait %d is ended %v: %+v", e.id, ok, over)
				}
				if !w.take(p.caller(), p) || w.take(p.caller(), p) {
					t.Fatal("a wait can be taken once")
				}
			}
		}
		if left := len(w.those(func(*part) bool { return true })); left != 2*sessions-40 {
			t.Fatalf("%d waits are left of %d", left, 2*sessions)
		}
		return best
	}
	few, many := cost(50), cost(100_000)
	if many > 50*few+20*time.Microsecond {
		t.Errorf("a connection that closes takes %v among 200 000 waits, %v among 100", many, few)
	}
}
