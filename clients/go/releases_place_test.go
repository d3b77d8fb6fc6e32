package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// newMoving is newTimed for a client whose clock goes on by a nanosecond whenever it is looked at: as any clock does,
// and that of a bubble does not.
func newMoving(t testing.TB) (*Client, *timed) {
	t.Helper()
	var n atomic.Int64
	clock := func() time.Duration { return bubbleClock() + time.Duration(n.Add(1)) }
	return newTimed(t, withClock(clock))
}

// TestAPlaceOutlastsItsTime: an acquire of the program's own that gives a lock back has a place in the queue. That ends
// by the clock of its log, which loses some time: the leader changes, or it runs by some hundred millionths too slow.
// When its turn comes the time of the place is over by the client's clock.
func TestAPlaceOutlastsItsTime(t *testing.T) {
	for name, tc := range map[string]struct{ place, step, lost, late time.Duration }{
		"the leader changes":      {time.Minute, 50 * time.Second, 100 * time.Millisecond, 50 * time.Millisecond},
		"the clock runs too slow": {6 * time.Hour, time.Hour, 360 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newMoving(t)
				l := hours(t, c, "a:/b/c")
				pass(time.Minute)
				if !s.rival("a:/b/d") {
					t.Fatal("this shows nothing")
				}
				s.other(&wire.Request{Op: wire.OpRenew, Owner: "rival", TTLMillis: millis(48 * time.Hour)})
				asksFor(t, c, turning(tc.place), wire.StatusQueued)
				asked := time.Now()
				for time.Since(asked) <= tc.place-tc.step {
					pass(tc.step)
					s.mu.Lock()
					s.start = s.start.Add(tc.lost)
					s.mu.Unlock()
				}
				pass(time.Until(asked.Add(tc.place + tc.late)))
				s.isHeld(l)
				s.rivalGives("a:/b/d")
				if !s.rival("a:/b/c") {
					t.Fatal("its owner holds it yet: this shows nothing")
				}
				pass(askedWithin + time.Second)
				if l.Err() == nil {
					t.Errorf("a rival holds it, and the lock counts as held for %v", time.Until(l.Deadline()))
				}
			})
		})
	}
}
