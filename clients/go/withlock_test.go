package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWithLockBesideItsRevocation: somebody asks for a lock in the moment in which WithLock is granted it. OnRevoke's
// function has the lock from then on, and may ask for its context before WithLock does. It is the one that WithLock
// hands out, and ends with WithLock's own all the same.
func TestWithLockBesideItsRevocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, p := newFake(t).client(WithKeepAlive(time.Hour))
		first := make(chan context.Context, 1)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op != wire.OpAcquire {
				return granted(a.req)
			}
			c.keeper.mu.Lock()
			expected := c.keeper.mu.asked["me"]
			c.keeper.mu.Unlock()
			if len(expected) != 1 {
				t.Errorf("%d locks are expected", len(expected))
				return granted(a.req)
			}
			first <- expected[0].Context()
			return granted(a.req)
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		must(t, c.WithLock(ctx, "a:/b/c", func(work context.Context, l *Lock) error {
			if by := <-first; by != work {
				t.Error("the lock has two contexts")
			}
			must(t, work.Err())
			cancel()
			pass(0)
			if work.Err() == nil {
				t.Error("WithLock's context has ended, and the lock's has not")
			}
			return nil
		}, Owner("me"), TTL(time.Hour), OnRevoke(func(*Lock) {})))
	})
}
