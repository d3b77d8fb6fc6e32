package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAKillThatIsToldLate: a kill goes from group to group, and its owner is told once all of them are done
// (forceRelease in groups), which takes as long as one of their logs has no leader; or it is told on a connection that
// came back meanwhile. What the owner has taken since then stays: only the server knows what went.
func TestAKillThatIsToldLate(t *testing.T) {
	killed := wire.Event{Kind: wire.EventKilled, At: wire.Position{Log: 2, Index: 11}}
	const p, q = "a:/b/p", "a:/b/q"
	for name, held := range map[string][]string{"and what was taken since stays": {q}, "and nothing stays": {p}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, peer := f.client()
				peer.lists = true
				var has atomic.Pointer[[]string]
				has.Store(&[]string{p})
				go peer.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpListLocks {
						return holding(*has.Load()...)
					}
					return granted(a.req)
				})
				first, err := c.Lock(context.Background(), p, Owner("me"))
				mustLock(t, first, err)
				pass(2 * watchAfter) // its events are told
				has.Store(&[]string{q})
				second, err := c.Lock(context.Background(), q, Owner("me"))
				mustLock(t, second, err)
				pass(2 * watchAfter)
				has.Store(&held)
				peer.send(wire.AppendEvent(nil, sub1(killed)))
				pass(time.Second)
				if held[0] == q {
					must(t, second.Err())
					lostBy(t, first, ErrKilled)
					pass(3 * DefaultTTL)
					must(t, second.Err())
					return
				}
				lostBy(t, second, ErrKilled)
			})
		})
	}
}

// TestAKillThatNobodyConfirms: who was told that its locks were taken away, and cannot ask which, does not believe in
// them for long.
func TestAKillThatNobodyConfirms(t *testing.T) {
	killed := wire.Event{Kind: wire.EventKilled, At: wire.Position{Log: 2, Index: 11}}
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, peer := f.client()
		peer.lists = true
		var silent atomic.Bool
		l := held(t, c, peer, func(a *asked) (*wire.Result, bool) {
			if a.req.Op == wire.OpListLocks {
				return holding("a:/b/c"), true
			}
			return nil, a.req.Op == wire.OpRenew && silent.Load()
		}, Owner("me"))
		pass(2 * watchAfter)
		silent.Store(true)
		peer.send(wire.AppendEvent(nil, sub1(killed)))
		pass(askedWithin)
		lostBy(t, l, ErrUncertain)
	})
}
