package pathlockd

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsBesideStuckUsers: a program's own requests, by Go, are about a log that does not answer, and fill what
// users may take of the window. Locks of another log, where each request is answered after 100 ms, are renewed by the
// reserve: 16 places of 256, of which one log leaves 2 to others, so 140 a second. 1100 locks with a TTL of 12 s need
// 98 at least.
func TestRenewalsBesideStuckUsers(t *testing.T) {
	for _, n := range []int{700, 1100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
				go p.serve(func(a *asked) *wire.Result {
					d := 100 * time.Millisecond
					if a.req.Owner == "sick" {
						d = 30 * time.Second
					}
					time.AfterFunc(d, func() { p.ok(a) })
					return nil
				})
				locks := make([]*Lock, n)
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() {
						l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/b/%d", i), TTL(12*time.Second))
						if err != nil {
							t.Error(err)
						}
						locks[i] = l
					})
				}
				all.Wait()
				pass(20 * time.Second) // by now they are renewed at different times
				defer keeps(c, 500, releaseOf("sick", "a:/sick/x"))()
				pass(60 * time.Second)
				lost := 0
				for _, l := range locks {
					if l.Err() != nil {
						lost++
					}
				}
				if lost > 0 {
					t.Errorf("%d of %d locks are lost", lost, n)
				}
			})
		})
	}
}
