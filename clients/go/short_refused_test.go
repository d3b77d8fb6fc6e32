package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// briefly takes a lock of owner "me" for three seconds.
func briefly(t testing.TB, c *Client, path string) *Lock {
	t.Helper()
	l, err := c.TryLock(context.Background(), path, Owner("me"), TTL(3*time.Second))
	return mustLock(t, l, err)
}

// TestShortBesideLongRefused: "me" has a lock for an hour and one for 3 s. The node that the client is at loses its way
// to the leader: it refuses to tell what "me" holds, or renewals as well. Another client of "me" gives the path of the
// short lock back, and a rival takes it. The short one is believed in for no longer than one alone: two of its TTLs.
func TestShortBesideLongRefused(t *testing.T) {
	for name, renewals := range map[string]bool{"looks": false, "looks and renewals": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				long := hours(t, c, "a:/b/c")
				pass(5 * time.Second)
				l := briefly(t, c, "a:/b/d")
				pass(10 * time.Second)
				must(t, l.Err())
				s.refuses(func(req *wire.Request) bool {
					return req.Op == wire.OpListLocks || renewals && req.Op == wire.OpRenew
				})
				s.other(&wire.Request{
					Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/d"}},
				})
				if !s.rival("a:/b/d") {
					t.Fatal("this shows nothing")
				}
				pass(2 * l.TTL())
				if l.Err() == nil {
					t.Errorf("a rival has the path, and the lock counts as held for %v yet", time.Until(l.Deadline()))
				}
				s.isHeld(long)
				if d := time.Until(long.Deadline()); d < 30*time.Minute {
					t.Errorf("the lock of an hour is sure for %v", d)
				}
			})
		})
	}
}

// TestShortBesideLongHealthy: nothing is given back. The short lock stays while what "me" holds is told in 40 pages of
// 100 ms each, and while everything is refused for a second, now and then.
func TestShortBesideLongHealthy(t *testing.T) {
	t.Run("many pages", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c, s := newTimed(t)
			paths := make([]Path, 20_000)
			for i := range paths {
				paths[i].Path = fmt.Sprintf("a:/b/c%05d", i)
			}
			many, err := c.LockAll(context.Background(), paths, Owner("me"), TTL(time.Hour))
			mustLock(t, many, err)
			s.takes(always(100*time.Millisecond, nil))
			l := briefly(t, c, "a:/b/d")
			for range 3 {
				pass(time.Minute)
				s.isHeld(l)
			}
		})
	})
	t.Run("refused for a second", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c, s := newTimed(t)
			long := hours(t, c, "a:/b/c")
			l := briefly(t, c, "a:/b/d")
			for range 20 {
				pass(5 * time.Second)
				s.refuses(func(*wire.Request) bool { return true })
				pass(time.Second)
				s.refuses(nil)
				s.isHeld(l)
			}
			s.isHeld(long)
		})
	})
}
