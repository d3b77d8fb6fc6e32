package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALockKeepsItsLane: a lock of an owner that the program names, or in whose name it asks later, was taken by a lane
// whose node has lost the lead since, 30 s ago or more. Unlock names the request that took it, on its lane, whether it
// is held still or was lost.
func TestALockKeepsItsLane(t *testing.T) {
	me, moment := []LockOption{Owner("me")}, 15*time.Second
	for name, one := range map[string]struct {
		lost bool
		opts []LockOption
		more time.Duration
	}{
		"it is held":                        {false, me, moment},
		"it is held for long":               {false, me, 3 * idleLane},
		"it was lost":                       {true, me, moment},
		"it is held by an owner of its own": {false, nil, 3 * idleLane},
	} {
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
				l, err := c.TryLock(context.Background(), in(0), append(one.opts, TTL(6*time.Second))...)
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire)
				if by.node != "n1" {
					t.Fatalf("the lock was taken by way of %s", by.node)
				}
				if one.opts == nil {
					c.Go(takesPath(l.Owner(), in(0)+"/q"), nil)
				}
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(15 * time.Second)
				must(t, l.Err())
				if one.lost {
					close(silent)
				}
				pass(one.more)
				if err := l.Unlock(); IsLost(err) != one.lost {
					t.Fatalf("Unlock: %v", err)
				}
				pass(time.Second)
				r := f.last(wire.OpRelease)
				if r.req.Owner != l.Owner() || r.req.Target != by.id || r.session != by.session {
					t.Errorf("the last release is %q's, names request %d and comes by %s; the lock was taken by request %d", r.req.Owner, r.req.Target, r.node, by.id)
				}
			})
		})
	}
}
