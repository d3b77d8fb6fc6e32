package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestWithLockAfterASuspension: the machine sleeps while f runs, the lease ends, and somebody else takes the path. f
// returns as the machine wakes, before the keeper has looked at the clock, which it does within a second. The lock was
// lost while f ran.
func TestWithLockAfterASuspension(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	began := time.Now()
	var asleep atomic.Int64 // what the clock shows while nothing runs, 0: it goes
	clock := func() time.Duration {
		if at := asleep.Load(); at != 0 {
			return time.Duration(at)
		}
		return time.Since(began) + time.Hour
	}
	c, other := dial(t, server(t), withClock(clock), WithGrace(time.Minute)), dial(t, server(t))
	p := path(t, "/a/b")
	const ttl = 2 * time.Second
	var theirs *Lock
	err := c.WithLock(ctx, p, func(context.Context, *Lock) error {
		asleep.Store(int64(clock())) // the machine sleeps: no timer of its own is due
		l, err := other.Lock(ctx, p) // once the lease is over
		theirs = mustLock(t, l, err)
		asleep.Store(0) // it wakes up
		return nil
	}, TTL(ttl))
	must(t, theirs.Err())
	if !IsLost(err) {
		t.Fatalf("WithLock answers %v, though %s held %s before f had ended, and holds it still", err,
			theirs.Owner(), p)
	}
}
