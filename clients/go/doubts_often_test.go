package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// workers has 60 goroutines take a lock of owner "me" each, again and again until the end, and give it back by a
// request of the program's own. It returns what waits for them: time stands still when a test is over.
func workers(t testing.TB, c *Client, end time.Time, ttl time.Duration,
	give func([]wire.ReleaseRequest) error) (wait func()) {
	var all sync.WaitGroup
	for i := range 60 {
		path := fmt.Sprintf("a:/b/w%d", i)
		all.Go(func() {
			time.Sleep(time.Duration(i*i) * 131 * time.Microsecond) // each has a rhythm of its own
			for time.Now().Before(end) {
				if _, err := c.Lock(context.Background(), path, Owner("me"), TTL(ttl)); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(100 * time.Millisecond)
				if err := give([]wire.ReleaseRequest{{Path: path}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return all.Wait
}

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
		defer workers(t, c, end, time.Hour, func(release []wire.ReleaseRequest) error {
			return c.Release(ctx, "me", release, false, "")
		})()
		pass(time.Until(end))
		s.isHeld(l)
		pass(30 * time.Second)
		s.isHeld(l)
		s.takes(nil)
	})
}

// TestReleasesItselfAllTheTimeAndTakesAnother: such workers take locks for 6 s at a time, and do not wait until what
// they took is given back. A second lock of their owner is taken in the midst of that: it stays too, for many times its
// TTL.
func TestReleasesItselfAllTheTimeAndTakesAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		c, s := newTimed(t)
		take := func(path string) *Lock {
			l, err := c.Lock(context.Background(), path, Owner("me"), TTL(ttl))
			return mustLock(t, l, err)
		}
		first := take("a:/b/c")
		pass(10 * time.Second)
		s.takes(always(50*time.Millisecond, nil))
		end := time.Now().Add(40 * time.Second)
		defer workers(t, c, end, ttl, func(release []wire.ReleaseRequest) error {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: release}, nil)
			return nil
		})()
		pass(3 * time.Second)
		second := take("a:/b/d")
		for time.Now().Before(end) && second.Err() == nil {
			pass(100 * time.Millisecond)
		}
		s.isHeld(second)
		s.isHeld(first)
		pass(time.Until(end) + time.Second)
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
