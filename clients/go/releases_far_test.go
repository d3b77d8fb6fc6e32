package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfFarAway: what a program gives back by a request of its own beside a lock of the same owner costs
// the lock nothing, also where each answer takes a second, or where the server stands still for three, as it does when
// its leader changes.
func TestReleasesItselfFarAway(t *testing.T) {
	ctx := context.Background()
	release := func(paths ...string) func(c *Client) error {
		return func(c *Client) error {
			var all []wire.ReleaseRequest
			for _, p := range paths {
				all = append(all, wire.ReleaseRequest{Path: p})
			}
			return c.Release(ctx, "me", all, false, "")
		}
	}
	for name, tc := range map[string]struct {
		way   time.Duration // there and back
		waits bool          // for another lock of the owner meanwhile
		still bool
		give  func(c *Client) error
	}{
		"700 ms, another lock":                 {way: 700 * time.Millisecond, give: release("a:/b/d")},
		"a second, another lock":               {way: time.Second, give: release("a:/b/d")},
		"a second, what no lock has":           {way: time.Second, waits: true, give: release("a:/b/e")},
		"standing still, of another namespace": {still: true, waits: true, give: release("z:/y/1", "z:/y/2")},
		"standing still, all of two others": {still: true, give: func(c *Client) error {
			return c.ReleaseAll(ctx, "me", false, "", "z:/y", "z:/x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				s, p := aNode()
				p.late(tc.way / 2)
				c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
				l := hours(t, c, "a:/b/c")
				hours(t, c, "a:/b/d")
				rival, err := c.Lock(ctx, "y:/y/x", TTL(time.Hour))
				mustLock(t, rival, err)
				waits, leave := context.WithCancel(ctx)
				if tc.waits {
					go func() { _, _ = c.Lock(waits, "y:/y/x", Owner("me")) }()
				}
				pass(time.Minute)
				must(t, l.Err())
				if tc.still {
					s.nodes[0].standStill(3 * time.Second)
				}
				must(t, tc.give(c))
				pass(time.Minute)
				if err := l.Err(); err != nil {
					t.Errorf("nothing is wrong, and the lock is lost: %v", err)
				}
				leave()
				pass(5 * time.Second)
				must(t, c.Close())
				s.nodes[0].crash()
			})
		})
	}
}

// TestReleasesItselfLaterFarAway: an acquire of the program's own, which gives back what no lock has, waits in the
// queue since before a lock of its owner was asked for. So nothing is kept of what it gives back, and it may be any
// lock that comes meanwhile. Each answer takes half a second or a little more, nothing is wrong, and no lock is lost.
func TestReleasesItselfLaterFarAway(t *testing.T) {
	for _, way := range []time.Duration{500 * time.Millisecond, 550 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(way.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				if !s.rival("a:/b/d") {
					t.Fatal("this shows nothing")
				}
				s.takes(always(way, nil))
				waits, leave := context.WithCancel(context.Background())
				go c.Acquire(waits, &wire.Request{
					Owner: "me", Flags: wire.FlagWait,
					TTLMillis: millis(time.Hour), QueueTTLMillis: millis(10 * time.Minute),
					Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/q"}},
				})
				pass(5 * time.Second)
				var all []*Lock
				for i := range 12 { // at other times between two renewals each
					all = append(all, hours(t, c, fmt.Sprintf("a:/b/w%d", i)))
					pass(time.Duration(i) * 37 * time.Millisecond)
				}
				pass(20 * time.Second)
				for _, l := range all {
					s.isHeld(l)
				}
				leave()
				pass(5 * time.Second)
				s.takes(nil)
			})
		})
	}
}
