package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// exchanging is an acquire of a program's own for a:/b/e, at once or not at all, that gives back a path.
func exchanging(path string) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: "me", TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: "a:/b/e"}}, Releases: []wire.ReleaseRequest{{Path: path}},
	}
}

// TestReleasesItselfFromTheQueueBesideARepeatByKey: an acquire that has a place in the queue is to give a lock's path
// back. Another one of its owner, which was granted before, is asked again by its key: it is answered from what is
// kept, and takes no place away. Ten seconds later the turn of the first comes, and the path is given back.
func TestReleasesItselfFromTheQueueBesideARepeatByKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		keyed := exchanging("a:/b/x")
		keyed.Key = "k"
		asksFor(t, c, keyed, wire.StatusOK)
		x := hours(t, c, "a:/b/x")
		pass(time.Minute)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		asksFor(t, c, turning(10*time.Minute), wire.StatusQueued)
		pass(10 * time.Second)
		s.isHeld(l)
		asksFor(t, c, keyed, wire.StatusOK)
		pass(10 * time.Second)
		s.isHeld(l)
		s.isHeld(x) // it was not carried out
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}

// TestReleasesItselfFromTheQueueBesideARepeat: an acquire is granted, and answered with that nobody knows what became
// of it. Then its owner takes a lock, and gets a place in the queue by an acquire that is to give the lock's path back.
// The first one is sent again, after that, and is not carried out again: it takes no place away.
func TestReleasesItselfFromTheQueueBesideARepeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		sent := 0
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op != wire.OpAcquire || req.Locks[0].Path != "a:/b/e" {
				return 0, false
			}
			if sent++; sent == 1 {
				return 0, true
			}
			return 100 * time.Millisecond, false
		})
		done := doing(context.Background(), c, exchanging("a:/b/c"))
		pass(time.Microsecond)
		l := hours(t, c, "a:/b/c")
		asksFor(t, c, turning(10*time.Minute), wire.StatusQueued)
		first := <-done
		if must(t, first.err); first.res.Status != wire.StatusOK || sent != 2 {
			t.Fatalf("%v after it was sent %d times: this shows nothing", first.res.Status, sent)
		}
		pass(10 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}
