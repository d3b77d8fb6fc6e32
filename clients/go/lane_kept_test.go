package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALockKeepsItsLane: a lock of an owner that the program names was taken by a lane whose node has lost the lead since, 30 s ago.
// Unlock names the request that took it, on its lane, whether it is held still or was lost.
func TestALockKeepsItsLane(t *testing.T) {
	for name, lost := range map[string]bool{"it is held": false, "it was lost": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				silent := make(chan struct{})
				f.serve = func(_ *peer, a *asked) *wire.Result {
					select {
					case <-silent:
						if a.req.Op == wire.OpRenew {
							return nil
						}
					default:
					}
					return granted(a.req)
				}
				l, err := c.TryLock(context.Background(), in(0), Owner("me"), TTL(6*time.Second))
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire)
				if by.node != "n1" {
					t.Fatalf("the lock was taken by way of %s", by.node)
				}
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(15 * time.Second)
				must(t, l.Err())
				if lost {
					close(silent)
				}
				pass(15 * time.Second)
				if err := l.Unlock(); IsLost(err) != lost {
					t.Fatalf("Unlock: %v", err)
				}
				pass(time.Second)
				r := f.last(wire.OpRelease)
				if r.req.Owner != "me" || r.req.Target != by.id || r.session != by.session {
					t.Errorf("the last release is %q's, names request %d and comes by %s; the lock was taken by request %d", r.req.Owner, r.req.Target, r.node, by.id)
				}
			})
		})
	}
}
