package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseThatGoesOnAfterItsLockWasEnded: the server does not take the release of a read for a while, so that
// Unlock gives up and the release goes on in the background. Meanwhile what its owner holds is released otherwise, and
// another client of the owner takes the path: that lock does not go with the release.
func TestAReleaseThatGoesOnAfterItsLockWasEnded(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, c, other *Client, owner string) error{
		"ReleaseAll by the same client": func(ctx context.Context, c, _ *Client, owner string) error {
			return c.ReleaseAll(ctx, owner, false, "")
		},
		"ForceRelease by another one": func(ctx context.Context, _, other *Client, owner string) error {
			return other.ForceRelease(ctx, owner, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			var leads atomic.Bool
			addr := stage(t, func(c *wire.Call) bool {
				if !leads.Load() {
					answers(c, wire.Unavailable)
					return true
				}
				return false
			})
			c, mate, other := dial(t, addr, WithGrace(time.Hour), WithOneConnection()),
				dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
			p, me := path(t, "/a/p"), t.Name()
			mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
			mustLock(t, mine, err)
			gaveUp(t, mine)
			must(t, end(ctx, c, other, me))
			if n := holders(t, other, p); n != 0 {
				t.Fatalf("%d hold the path", n)
			}
			later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
			mustLock(t, later, err)
			leads.Store(true)
			eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
			if n := holders(t, other, p); n != 1 {
				t.Errorf("%d hold %s, and the later lock is sure for %v more (Err: %v)", n, p,
					time.Until(later.Deadline()).Round(time.Second), later.Err())
			}
		})
	}
}
