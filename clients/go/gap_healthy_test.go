package pathlockd

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

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

// TestGapsOfManyLeases: events of many owners are missed, once or often. Looks at what they hold go out a few at a
// time, so the last ones wait for long. Everything is answered, and no lock is lost.
func TestGapsOfManyLeases(t *testing.T) {
	for _, of := range []struct {
		leases     int
		ttl, grace time.Duration
		way        time.Duration // that each answer takes
		every      time.Duration // a gap comes for a minute, 0: once
	}{
		{128, time.Hour, time.Second, 150 * time.Millisecond, 0},
		{128, time.Hour, DefaultGrace, 500 * time.Millisecond, 0},
		{128, 10 * time.Second, DefaultGrace, 150 * time.Millisecond, 0},
		{128, time.Hour, DefaultGrace, 100 * time.Millisecond, 500 * time.Millisecond},
		{32, time.Hour, DefaultGrace, 200 * time.Millisecond, 500 * time.Millisecond},
		{1, time.Hour, DefaultGrace, 2500 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(of.grace), WithBacklog(1024))
				p.lists = true
				var mu sync.Mutex
				subscriptions := uint64(0)
				go p.serve(func(a *asked) *wire.Result {
					res := granted(a.req)
					if a.req.Op == wire.OpSubscribe {
						mu.Lock()
						subscriptions++
						res = &wire.Result{Count: subscriptions,
							List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 10}}}}
						mu.Unlock()
					}
					time.AfterFunc(of.way, func() {
						if a.req.Op == wire.OpListLocks {
							res = p.taken.of(a.req.Owner)
						}
						p.reply(a.id, a.req.Op, res)
					})
					return nil
				})
				locks := make([]*Lock, of.leases)
				var all sync.WaitGroup
				for i := range locks {
					all.Go(func() {
						l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/b/%d", i), Owner(fmt.Sprint("me", i)),
							TTL(of.ttl))
						if locks[i] = l; err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				pass(of.ttl * 5 / 4)
				gaps := 1
				if of.every > 0 {
					gaps = int(time.Minute / of.every)
				}
				for range gaps {
					mu.Lock()
					n := subscriptions
					mu.Unlock()
					for i := range n {
						p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: i + 1}))
					}
					pass(max(of.every, time.Millisecond))
				}
				pass(20 * time.Second)
				for i, l := range locks {
					if l.Err() != nil {
						t.Errorf("nothing was wrong, and lock %d is lost: %v", i, l.Err())
					}
				}
			})
		})
	}
}
