package pathlockd

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWithLockBesideItsRevocation: somebody asks for a lock in the moment in which WithLock is granted it. OnRevoke's function
// has the lock then, and may ask for its context before WithLock does. That ends with WithLock's own context all the same. It
// is tried until that function came first some times.
func TestWithLockBesideItsRevocation(t *testing.T) {
	const often, rounds, asks, crowd = 5, 3000, 3000, 200_000
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		revoke := func(frames []byte) []byte {
			return wire.AppendEvent(frames, sub1(wire.Event{Kind: wire.EventRevoke, At: wire.Position{Log: 2, Index: 11}}))
		}
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op != wire.OpAcquire || len(a.req.Locks) == 0 || a.req.Locks[0].Path != "a:/b/c" {
				return granted(a.req)
			}
			frames := wire.AppendReply(nil, a.id, a.req.Op, granted(a.req))
			for range asks {
				frames = revoke(frames)
			}
			p.send(frames)
			return nil
		})
		beside, err := c.Lock(context.Background(), "a:/b/x", Owner("me"), TTL(time.Hour))
		mustLock(t, beside, err)
		pass(2 * watchAfter)
		c.keeper.mu.Lock() // of so many the keeper takes a while to find the one that is taken
		c.keeper.mu.asked = map[string][]*Lock{"me": slices.Repeat([]*Lock{new(Lock)}, crowd)}
		c.keeper.mu.Unlock()
		first := 0
		for round := 0; round < rounds && first < often && !t.Failed(); round++ {
			ctx, cancel := context.WithCancel(context.Background())
			asked := make(chan context.Context, 1)
			err := c.WithLock(ctx, "a:/b/c", func(work context.Context, l *Lock) error {
				if len(asked) == 1 {
					first++
				}
				p.send(revoke(nil)) // if it was granted after the others
				if by := <-asked; by != work {
					t.Error("the lock has two contexts")
				}
				must(t, work.Err())
				cancel()
				pass(0)
				if work.Err() == nil {
					t.Error("WithLock's context has ended, and the lock's has not")
				}
				return nil
			}, Owner("me"), TTL(time.Hour), OnRevoke(func(l *Lock) { asked <- l.Context() }))
			must(t, err)
		}
		t.Logf("OnRevoke's function came first %d times", first)
	})
}
