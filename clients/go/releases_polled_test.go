package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfFromTheQueue: an acquire of the program's own gives back a lock's path and is answered with a place
// in the queue, which does not wait. Ten seconds later its turn comes: then the path is given back, and nobody is told.
func TestReleasesItselfFromTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		res, err := c.Acquire(context.Background(), &wire.Request{
			Owner: "me", TTLMillis: millis(time.Hour), QueueTTLMillis: millis(10 * time.Minute),
			Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}},
		})
		if must(t, err); res.Status != wire.StatusQueued {
			t.Fatal(res.Status)
		}
		pass(10 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}
