package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// looksBehindListings: a program lists what many owners hold, many at once, over a way of a tenth of a second. The
// server answers each within that, and nothing is wrong. What the keeper itself asks is urgent.
func looksBehindListings(t *testing.T, many int, then func(c *Client, s *timed) []*Lock) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(0, map[wire.Op]time.Duration{wire.OpListLocks: 100 * time.Millisecond,
			wire.OpRenew: 100 * time.Millisecond}))
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		if !s.rival("a:/b/theirs") {
			t.Fatal("this shows nothing")
		}
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		s.isHeld(l)
		for i := range many {
			go func() {
				for ctx.Err() == nil {
					_, _, _ = c.ListOwnerLocks(ctx, fmt.Sprint("owner", i), "a:/b")
				}
			}()
		}
		pass(time.Second)
		all := append(then(c, s), l)
		pass(30 * time.Second)
		for _, l := range all {
			s.isHeld(l)
		}
		stop()
		pass(time.Minute)
	})
}

func TestALockAtRiskBehindListings(t *testing.T) {
	looksBehindListings(t, 400, func(c *Client, s *timed) []*Lock {
		asksFor(t, c, &wire.Request{
			Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/theirs"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}},
		}, wire.StatusConflict)
		return nil
	})
}

// TestALockAtRiskBehindFewListings: the same with so few that the server never has more of them than it takes.
func TestALockAtRiskBehindFewListings(t *testing.T) {
	looksBehindListings(t, 6, func(c *Client, s *timed) []*Lock {
		asksFor(t, c, &wire.Request{
			Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/theirs"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}},
		}, wire.StatusConflict)
		return nil
	})
}

// TestASecondLockBehindListings: a second lock of an owner, for five seconds: before a renewal counts it is asked
// whether the lease is the same yet.
func TestASecondLockBehindListings(t *testing.T) {
	looksBehindListings(t, 600, func(c *Client, s *timed) []*Lock {
		l, err := c.Lock(context.Background(), "a:/b/d", Owner("me"), TTL(5*time.Second))
		return []*Lock{mustLock(t, l, err)}
	})
}
