package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfFromTheQueueLate: nobody knows what became of an acquire that is to give a lock's path back. Its
// log takes it late, and its place in the queue ends so much later. Its turn comes after it would have ended if it had
// been taken at once, and the path is given back all the same.
func TestReleasesItselfFromTheQueueLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		repeat := c.home.session.repeats()
		late, sent := repeat/2, 0
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpAcquire {
				sent++
				return late, true
			}
			return 0, false
		})
		own, told := turning(2*repeat), make(chan error, 1)
		own.Op = wire.OpAcquire
		c.Go(own, func(_ *wire.Result, err error) { told <- err }) // once
		if err := <-told; !errors.Is(err, ErrOutcomeUnknown) || sent != 1 {
			t.Fatalf("%v after it was sent %d times: this shows nothing", err, sent)
		}
		pass(2*repeat + late/2)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}

// TestReleasesItselfFromTheQueueTakenBack: an acquire that is to give a path back finds the server busy, and its owner
// takes a lock on that path before it is sent again. Its caller goes while it is on its way, so the place in the queue
// is told to nobody. A minute and a half later its turn comes, and the path is given back all the same.
func TestReleasesItselfFromTheQueueTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		own := func(req *wire.Request) bool { return req.Op == wire.OpAcquire && len(req.Releases) > 0 }
		refused := false
		s.refuses(func(req *wire.Request) bool {
			if refused || !own(req) {
				return false
			}
			refused = true
			return true
		})
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if own(req) {
				return 100 * time.Millisecond, false
			}
			return 0, false
		})
		short, leave := context.WithTimeout(context.Background(), 80*time.Millisecond)
		defer leave()
		req := turning(10 * time.Minute)
		req.Op = wire.OpAcquire
		done := doing(short, c, req)
		pass(time.Microsecond)
		l := hours(t, c, "a:/b/c")
		if first := <-done; !errors.Is(first.err, ErrOutcomeUnknown) || !refused {
			t.Fatalf("%v, refused %v: this shows nothing", first.err, refused)
		}
		pass(90 * time.Second)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}
