package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsOfTheProgramStarveTheRest: all is well, and each request is answered after 100 ms. A program keeps very
// many renewals of a lock's owner under way by Go, which go ahead as they may shorten the lease. What else it asks is
// sent all the same.
func TestRenewalsOfTheProgramStarveTheRest(t *testing.T) {
	for _, n := range []int{120, 230, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace))
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(100*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				var stop atomic.Bool
				var again func(*wire.Result, error)
				asks := func() {
					c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000, Domains: []string{"a:/b"}},
						again)
				}
				again = func(_ *wire.Result, err error) {
					if err != nil {
						t.Error(err)
					}
					if !stop.Load() {
						asks()
					}
				}
				for range n {
					asks()
				}
				pass(time.Second)
				ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				began := time.Now()
				err = c.Release(ctx, "else", []wire.ReleaseRequest{{Path: "a:/other/x"}}, false, "")
				s := &c.home.session
				s.mu.Lock()
				t.Logf("%v after %v; under way %d of %d", err, time.Since(began), s.mu.flying, s.mu.limits.all)
				s.mu.Unlock()
				if err != nil || time.Since(began) > 5*time.Second {
					t.Errorf("a release of another namespace: %v after %v", err, time.Since(began))
				}
				stop.Store(true)
				pass(time.Second)
			})
		})
	}
}
