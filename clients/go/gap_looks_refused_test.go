package pathlockd

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGapThenLooksRefused: the owner is killed, and takes something else by another client: a renewal finds that lease,
// and counts, as the owner's events are told. Then they are found to be missed, and looks are refused from then on. The
// lock is not believed in for longer than its TTL after the last renewal of its own lease.
func TestGapThenLooksRefused(t *testing.T) {
	for _, ttl := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				p.lists = true
				var mu sync.Mutex
				killed, found := false, false
				var good time.Time
				go p.serve(func(a *asked) *wire.Result {
					mu.Lock()
					defer mu.Unlock()
					res := granted(a.req)
					switch a.req.Op {
					case wire.OpAcquire:
						good = a.at
					case wire.OpRenew:
						if found = killed; !killed {
							good = a.at
						}
					case wire.OpListLocks:
						if res = heldFirst(); killed {
							res = &wire.Result{Code: wire.Unavailable, Message: "not now"}
						}
					}
					time.AfterFunc(10*time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
					return nil
				})
				l, err := c.Lock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
				mustLock(t, l, err)
				pass(ttl * 5 / 6)
				is := func(b *bool) bool {
					mu.Lock()
					defer mu.Unlock()
					return *b
				}
				mu.Lock()
				killed = true
				mu.Unlock()
				for !is(&found) {
					pass(10 * time.Millisecond)
				}
				pass(100 * time.Millisecond)
				p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
				for l.Err() == nil {
					pass(100 * time.Millisecond)
				}
				mu.Lock()
				defer mu.Unlock()
				if d := time.Since(good); d > ttl {
					t.Errorf("it is believed in for %v after the last renewal of its lease", d)
				}
			})
		})
	}
}

// TestGapOnASlowWay: events that are missed now and then cost no lock of which all is answered, on a way that takes a
// fifth of its TTL.
func TestGapOnASlowWay(t *testing.T) {
	for _, of := range []struct{ ttl, way int }{{2000, 380}, {5000, 1000}, {10_000, 2000}, {30_000, 3000}} {
		for try := range 5 {
			t.Run(fmt.Sprintf("TTL %d ms, way %d ms, %d", of.ttl, of.way, try), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ttl := time.Duration(of.ttl) * time.Millisecond
					f := newFake(t)
					c, p := f.telling()
					p.lists = true
					go p.serve(func(a *asked) *wire.Result {
						res := granted(a.req)
						time.AfterFunc(time.Duration(of.way)*time.Millisecond, func() {
							if a.req.Op == wire.OpListLocks {
								res = p.taken.of(a.req.Owner)
							}
							p.reply(a.id, a.req.Op, res)
						})
						return nil
					})
					l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
					mustLock(t, l, err)
					pass(2 * ttl)
					for n := range 40 {
						p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
						pass(ttl*3/2 + ttl*time.Duration(n)/40)
						if l.Err() != nil {
							t.Fatalf("nothing was wrong, lost after gap %d: %v", n+1, l.Err())
						}
					}
				})
			})
		}
	}
}
