package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAShortLockEndsALongOne: an owner holds a lock for five minutes and takes another one for 400 ms in the same
// namespace. Then the server is slow, for half a second. The first lock's lease lasts for minutes yet, as is known:
// the client renewed it with that, and nothing shortens it.
func TestAShortLockEndsALongOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		l := lockWith(t, c, p, Owner("me"), TTL(5*time.Minute))
		over := time.Now().Add(5 * time.Second)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && time.Now().After(over) && time.Now().Before(over.Add(500*time.Millisecond)) {
				time.Sleep(500 * time.Millisecond)
			}
			return granted(a.req)
		})
		time.Sleep(time.Until(over) + time.Millisecond)
		second, err := c.TryLock(context.Background(), "a:/b/d", Owner("me"), TTL(400*time.Millisecond))
		mustLock(t, second, err)
		pass(2 * time.Second)
		if second.Err() == nil {
			t.Error("the second lock is not lost")
		}
		if err := l.Err(); err != nil {
			t.Errorf("the first lock, which lasts for 4 m 50 s more by what was confirmed: %v", err)
		}
	})
}
