package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// turning is an acquire of a program's own for a:/b/d that gives a:/b/c back when its turn comes. It has a place in the
// queue for so long, and does not wait in it.
func turning(queue time.Duration) *wire.Request {
	return &wire.Request{
		Owner: "me", TTLMillis: millis(time.Hour), QueueTTLMillis: millis(queue),
		Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}},
	}
}

// asksFor asks once for what an acquire is about, and fails if it is answered otherwise than with a status.
func asksFor(t testing.TB, c *Client, req *wire.Request, want wire.Status) {
	t.Helper()
	res, err := c.Acquire(context.Background(), req)
	if must(t, err); res.Status != want {
		t.Fatalf("answered %v, want %v", res.Status, want)
	}
}

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
		asksFor(t, c, turning(10*time.Minute), wire.StatusQueued)
		pass(10 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}

// TestReleasesItselfFromTheQueueForNobody: the caller of such an acquire goes while it is on its way, so the place in
// the queue is told to nobody. Ten seconds later its turn comes, and the path is given back all the same.
func TestReleasesItselfFromTheQueueForNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		s.takes(always(0, map[wire.Op]time.Duration{wire.OpAcquire: 100 * time.Millisecond}))
		short, leave := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer leave()
		if _, err := c.Acquire(short, turning(10*time.Minute)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("%v: this shows nothing", err)
		}
		pass(10 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}
