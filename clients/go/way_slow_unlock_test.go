package pathlockd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnlockBehindAnOldLeaderThatIsSlow: a node is cut off from its peers and not from the client: it answers pings, and everything
// else after request_timeout_ms. Another node leads since, which the client knows, and answers at once: locks that were taken by way of
// the old one are given back, whoever named their owner ("renewals and releases go where its namespace leads at the time").
func TestUnlockBehindAnOldLeaderThatIsSlow(t *testing.T) {
	for name, opts := range map[string][]LockOption{"an owner of its own": nil, "an owner that the program names": {Owner("me")}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				off := make(chan struct{})
				var mu sync.Mutex
				var unlocked, freed time.Time
				f.serve = func(p *peer, a *asked) *wire.Result {
					select {
					case <-off:
						if p.node == "n1" && a.req.Op != wire.OpPing {
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
							return nil
						}
					default:
					}
					mu.Lock()
					defer mu.Unlock()
					if a.req.Op == wire.OpRelease && a.req.Releases[0].Path == in(0) && !unlocked.IsZero() && freed.IsZero() {
						freed = time.Now()
					}
					return granted(a.req)
				}
				l, err := c.TryLock(context.Background(), in(0), append(opts, TTL(time.Hour))...)
				mustLock(t, l, err)
				other, err := c.TryLock(context.Background(), in(1)) // it holds something else as well
				mustLock(t, other, err)
				pass(5 * time.Second)
				close(off)
				pass(3 * time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(10 * time.Second) // the client has known it for long
				must(t, l.Err())
				mu.Lock()
				unlocked = time.Now()
				mu.Unlock()
				if err := l.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
				}
				pass(2 * time.Minute)
				must(t, other.Unlock())
				mu.Lock()
				defer mu.Unlock()
				if freed.IsZero() {
					t.Error("the path was never freed: it is locked for an hour, by nobody")
				} else if d := freed.Sub(unlocked); d > 5*time.Second {
					t.Errorf("the path was freed after %v", d)
				}
			})
		})
	}
}
