package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPollsAreToldApartToABound: a program asks again and again, for a place in the queue for a day and each time with
// something else to give back. What is kept of that is bounded; beyond it all that the owner has may be given back.
func TestPollsAreToldApartToABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		for i := range 300 {
			req := turning(24 * time.Hour)
			req.Releases = []wire.ReleaseRequest{{Path: fmt.Sprint("a:/b/x", i)}}
			if i == 299 {
				req.Releases = append(req.Releases, wire.ReleaseRequest{Path: "a:/b/c"})
			}
			asksFor(t, c, req, wire.StatusQueued)
		}
		pass(time.Minute)
		must(t, l.Err())
		c.keeper.mu.Lock()
		kept := len(c.keeper.mu.shorter["me"])
		c.keeper.mu.Unlock()
		if kept > lingers+1 {
			t.Errorf("%d are kept, want %d at most", kept, lingers+1)
		}
		s.rivalGives("a:/b/d")
		pass(askedWithin + time.Second)
		if l.Err() == nil {
			t.Error("the last of them gave it back, and it counts as held")
		}
	})
}

// TestPollsOfOwnersWithoutEnd: a program polls in the name of one owner after the other, each time for a place in the
// queue for a day and with something else to give back, and keeps no lock. What is kept of that is bounded, and of an
// owner beyond the bound nothing is forgotten: a lock of it that is taken later is lost when its place comes to its
// turn.
func TestPollsOfOwnersWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		for i := range mostLingering {
			req := turning(24 * time.Hour)
			req.Owner = fmt.Sprint("o", i)
			asksFor(t, c, req, wire.StatusQueued)
			must(t, c.ReleaseAll(t.Context(), req.Owner, false, ""))
		}
		kept := func() int {
			c.keeper.mu.Lock()
			defer c.keeper.mu.Unlock()
			return len(c.keeper.mu.shorter)
		}
		before := kept()
		asksFor(t, c, turning(24*time.Hour), wire.StatusQueued)
		if n := kept(); before != mostLingering || n != before {
			t.Fatalf("what %d owners may give back is kept, and of one more %d: want %d", before, n, mostLingering)
		}
		// In another namespace, as what is granted takes the place in the queue of its own away.
		req := turning(24 * time.Hour)
		req.Locks, req.Releases = []wire.LockRequest{{Path: "a:/q/d"}}, []wire.ReleaseRequest{{Path: "a:/q/c"}}
		if !s.rival("a:/q/d") {
			t.Fatal("this shows nothing")
		}
		asksFor(t, c, req, wire.StatusQueued)
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		s.isHeld(l)
		if left := time.Until(l.Deadline()); left > askedWithin {
			t.Errorf("its owner may give it back at any time, and it is sure for %v", left)
		}
	})
}

// TestWhatLingersIsNotMixedUp: nobody knows what became of a renewal for two seconds, nor of more acquires with a place
// in the queue than are told apart. The last of them gives a lock back.
func TestWhatLingersIsNotMixedUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		c.keeper.mu.Lock()
		c.keeper.linger("me", &shorter{ttl: askedWithin}, time.Hour)
		c.keeper.mu.Unlock()
		for i := range lingers {
			req := turning(10 * time.Minute)
			if req.Releases = []wire.ReleaseRequest{{Path: fmt.Sprint("a:/b/x", i)}}; i == lingers-1 {
				req.Releases[0].Path = "a:/b/c"
			}
			asksFor(t, c, req, wire.StatusQueued)
		}
		pass(10 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		pass(askedWithin + time.Second)
		if l.Err() == nil {
			t.Errorf("the last of them gave it back, and it counts as held for %v", time.Until(l.Deadline()))
		}
	})
}

// TestHandedOutAtRisk: an acquire of the program's own that gives a path back has a place in the queue. A lock of the
// path is asked for then, and answered after three seconds: longer than what may be given back is believed in unseen.
func TestHandedOutAtRisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		if !s.rival("a:/q/d") {
			t.Fatal("this shows nothing")
		}
		req := turning(10 * time.Minute)
		req.Locks = []wire.LockRequest{{Path: "a:/q/d"}}
		asksFor(t, c, req, wire.StatusQueued)
		s.takes(always(0, map[wire.Op]time.Duration{wire.OpAcquire: 3 * time.Second}))
		l := hours(t, c, "a:/b/c")
		for range 60 {
			pass(time.Second)
			s.isHeld(l)
		}
	})
}
