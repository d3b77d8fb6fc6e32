package pathlockd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfNoMoreOnceGranted: an acquire of the program's own that gives a path back is answered with a place
// in the queue for an hour, and is granted when it is asked again. So there is nothing of it to come. A lock of the
// path that is taken after that is believed in for as long as any, and the server is not asked about it all the time.
func TestReleasesItselfNoMoreOnceGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		first := hours(t, c, "a:/b/c")
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		asksFor(t, c, turning(time.Hour), wire.StatusQueued)
		pass(time.Second)
		s.rivalGives("a:/b/d")
		asksFor(t, c, turning(time.Hour), wire.StatusOK)
		pass(10 * time.Second)
		if first.Err() == nil {
			t.Error("it was given back, and counts as held")
		}
		l := hours(t, c, "a:/b/c")
		pass(10 * time.Minute)
		var asked atomic.Int32
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpRenew || req.Op == wire.OpListLocks {
				asked.Add(1)
			}
			return 0, false
		})
		pass(time.Minute)
		s.isHeld(l)
		if left := time.Until(l.Deadline()); left < 30*time.Minute {
			t.Errorf("11 minutes after nothing is to come any more a lock for an hour is sure for %v", left)
		}
		if n := asked.Load(); n > 2 {
			t.Errorf("it was asked %d times about it within a minute", n)
		}
	})
}

// TestReleasesItselfLastPlaceAlone: an owner has one place in the queue of a namespace, and each acquire takes it from
// the one before. A program asks again and again, for a place for a day and each time with something else to give back:
// what is kept of that is of the last one alone.
func TestReleasesItselfLastPlaceAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		hours(t, c, "a:/b/c")
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		for i := range 300 {
			req := turning(24 * time.Hour)
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: fmt.Sprint("a:/b/x", i)})
			asksFor(t, c, req, wire.StatusQueued)
		}
		pass(time.Minute)
		c.keeper.mu.Lock()
		kept := len(c.keeper.mu.shorter["me"])
		c.keeper.mu.Unlock()
		if kept != 1 {
			t.Errorf("the owner has one place in the queue, and %d are kept", kept)
		}
	})
}
