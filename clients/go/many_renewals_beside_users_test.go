package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestManyRenewalsBesideUsers: all is well, and each request is answered after 100 ms, whatever it is. A program
// holds many locks of one log, which take a half of the window to be renewed in time, and keeps the window full of
// requests of its own by Go. Each place that becomes free goes to the renewals first, and no lock ends.
func TestManyRenewalsBesideUsers(t *testing.T) {
	for _, users := range []bool{false, true} {
		t.Run(fmt.Sprint("users ", users), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(100*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				const n = 4000
				var locks [n]*Lock
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() {
						l, err := c.TryLock(ctx, fmt.Sprintf("a:/b/%d", i), TTL(12*time.Second))
						if err != nil {
							t.Error(err)
						}
						locks[i] = l
					})
				}
				all.Wait()
				if users {
					defer keeps(c, 500, releaseOf("else", "a:/b/x"))()
				}
				pass(30 * time.Second)
				lost := 0
				for _, l := range locks {
					if l.Err() != nil {
						lost++
					}
				}
				s := &c.home.session
				s.mu.Lock()
				t.Logf("%d of %d lost; flying %d of %d, keeper's %d", lost, n, s.mu.flying, s.mu.limits.all,
					s.mu.flying-s.mu.shares[0].flying)
				s.mu.Unlock()
				if lost > 0 {
					t.Errorf("all is answered after 100 ms, and %d of %d locks are lost", lost, n)
				}
			})
		})
	}
}
