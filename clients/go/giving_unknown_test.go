package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseOfUnknownOutcomeAfterItsLockWasEnded: a server does not know in time what becomes of the release of a
// read (code 4; it was not carried out), and its log takes nothing for a while. Meanwhile what its owner holds is
// released otherwise, and another client of the owner takes the path: that lock does not go with the repeat of the
// release.
func TestAReleaseOfUnknownOutcomeAfterItsLockWasEnded(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, c, mate, other *Client, p, owner string) error{
		"ReleaseAll by the same client": func(ctx context.Context, c, _, _ *Client, _, owner string) error {
			return c.ReleaseAll(ctx, owner, false, "")
		},
		"ForceRelease by another one": func(ctx context.Context, _, _, other *Client, _, owner string) error {
			return other.ForceRelease(ctx, owner, "")
		},
		"Unlock by another client of the owner": func(ctx context.Context, _, mate, _ *Client, p, owner string) error {
			l, err := mate.TryRLock(ctx, p, Owner(owner), TTL(time.Hour))
			if err != nil {
				return err
			}
			return l.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			var n atomic.Int32
			var leads atomic.Bool
			addr := stage(t, func(c *wire.Call) bool {
				switch {
				case n.Add(1) == 1:
					answers(c, wire.DeadlineExceeded) // it was not carried out
				case !leads.Load():
					answers(c, wire.Unavailable)
				default:
					return false
				}
				return true
			})
			c, mate, other := dial(t, addr, WithGrace(time.Hour), WithOneConnection()),
				dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
			p, me := path(t, "/a/p"), t.Name()
			mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
			mustLock(t, mine, err)
			gaveUp(t, mine)
			must(t, end(ctx, c, mate, other, p, me))
			if n := holders(t, other, p); n != 0 {
				t.Fatalf("%d hold the path", n)
			}
			between, err := other.TryLock(ctx, p) // somebody else had it between
			mustLock(t, between, err)
			must(t, between.Unlock())
			later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
			mustLock(t, later, err)
			leads.Store(true)
			eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
			if n := holders(t, other, p); n != 1 {
				l, err := other.TryLock(ctx, p)
				t.Errorf("%d hold %s: a stranger writes it (%v, %v), and the later lock is sure for %v more (Err: %v)",
					n, p, l != nil, err,
					time.Until(later.Deadline()).Round(time.Second), later.Err())
			}
		})
	}
}
