package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnEarlierShortLockEndsALongOne: an owner holds a lock for 400 ms at a time, and takes another one for five
// minutes in the same namespace. Then the server is slow, for half a second. The request that took the second lock made
// the lease last for five minutes, and nothing shortens it: what ends is what is known of the first one. "Lost:
// somebody took it away, or no renewal came through for so long that the server may have given it to somebody else"
// (doc.go).
func TestAnEarlierShortLockEndsALongOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		short := lockWith(t, c, p, Owner("me"), TTL(400*time.Millisecond))
		over := time.Now().Add(300 * time.Millisecond)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && time.Now().Before(over.Add(500*time.Millisecond)) {
				time.Sleep(500 * time.Millisecond)
			}
			return granted(a.req)
		})
		pass(time.Millisecond)
		long, err := c.TryLock(context.Background(), "a:/b/d", Owner("me"), TTL(5*time.Minute))
		mustLock(t, long, err)
		pass(2 * time.Second)
		if short.Err() == nil {
			t.Error("the first lock is not lost")
		}
		if err := long.Err(); err != nil {
			t.Errorf("the second lock, which lasts for 4 m 50 s more by the request that took it: %v", err)
		}
		pass(10 * time.Minute)
		if err := long.Err(); err != nil {
			t.Errorf("the second lock, which is renewed: %v", err)
		}
	})
}
