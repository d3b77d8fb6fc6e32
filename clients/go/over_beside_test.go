package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestALockBesideOneThatIsOver: the machine was asleep for longer than a lease of an owner lasts. As it wakes, before
// anybody has looked at the clock, the owner takes a further lock, which the server grants: that begins another lease.
// "Lost: somebody took it away, or no renewal came through for so long that the server may have given it to somebody
// else" (doc.go): not the new one.
func TestALockBesideOneThatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		began := time.Now()
		var asleep atomic.Int64
		clock := func() time.Duration { return time.Since(began) + time.Hour + time.Duration(asleep.Load()) }
		c, p := f.client(WithGrace(time.Minute), withClock(clock))
		l := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
		p.serveAll()
		pass(1500 * time.Millisecond)
		asleep.Store(int64(time.Hour))
		second, err := c.TryLock(context.Background(), "a:/b/d", Owner("me"), TTL(time.Minute))
		mustLock(t, second, err)
		pass(time.Second)
		if l.Err() == nil {
			t.Error("the first lock is not lost")
		}
		if err := second.Err(); err != nil {
			t.Errorf("the lock that was just taken: %v", err)
		}
	})
}
