package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfAllTheTime: 60 workers of a program take locks of one owner and give them back by requests of its
// own, so that there is a new doubt about the owner's other lock before any answer is there. Each takes 50 ms, and
// nothing is wrong: the other lock stays.
func TestReleasesItselfAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		s.takes(always(50*time.Millisecond, nil))
		end := time.Now().Add(20 * time.Second)
		for i := range 60 {
			path := fmt.Sprintf("a:/b/w%d", i)
			go func() {
				time.Sleep(time.Duration(i*i) * 131 * time.Microsecond) // each has a rhythm of its own
				for time.Now().Before(end) {
					if _, err := c.Lock(ctx, path, Owner("me"), TTL(time.Hour)); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(100 * time.Millisecond)
					if err := c.Release(ctx, "me", []wire.ReleaseRequest{{Path: path}}, false, ""); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		pass(time.Until(end))
		s.isHeld(l)
		pass(30 * time.Second)
		s.isHeld(l)
		s.takes(nil)
	})
}

// TestReleasesItselfUnknownAllTheTime: within two seconds nobody knows what became of 60 releases of another lock of
// the owner, so that each is a new doubt before there is an answer to what the one before had asked for. All else is
// answered within 60 ms: the lock stays.
func TestReleasesItselfUnknownAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		hours(t, c, "a:/b/d")
		pass(time.Minute)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpRelease {
				return 50 * time.Second, true
			}
			return 60 * time.Millisecond, false
		})
		for range 60 {
			other := &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/d"}}}
			c.Go(other, nil)
			pass(2 * time.Second / 60)
		}
		s.isHeld(l)
		pass(2 * time.Minute)
		s.isHeld(l)
		s.takes(nil)
	})
}
