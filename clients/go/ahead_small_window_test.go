package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsOfTheProgramStarveLocks: all is well, and each request is answered after 100 ms. A program keeps as many
// renewals of an owner under way by Go as the window takes, which go ahead as they may shorten a lease. Locks of other
// owners are renewed all the same, as they are with nothing of the program's under way.
func TestRenewalsOfTheProgramStarveLocks(t *testing.T) {
	for _, one := range []struct{ window, locks, asks int }{
		{16, 40, 0}, {48, 200, 0}, {63, 200, 0},
		{16, 40, 40}, {31, 40, 80}, {32, 40, 80}, {48, 200, 200}, {63, 200, 200}, {64, 100, 200},
		{256, 400, 600}, {256, 1000, 600},
	} {
		t.Run(fmt.Sprint(one), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithWindow(one.window), WithBacklog(4096))
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(100*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				mine, err := c.TryLock(ctx, "a:/b/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, mine, err)
				locks := make([]*Lock, one.locks)
				var all sync.WaitGroup
				for i := range locks {
					all.Go(func() {
						l, err := c.TryLock(ctx, fmt.Sprintf("a:/b/%d", i), TTL(12*time.Second))
						if err != nil {
							t.Error(err)
						}
						locks[i] = l
					})
				}
				all.Wait()
				defer keeps(c, one.asks, renewsMine("a:/b"))()
				pass(60 * time.Second)
				lost := 0
				for _, l := range locks {
					if l.Err() != nil {
						lost++
					}
				}
				if lost > 0 {
					t.Errorf("all is answered after 100 ms, and %d of %d locks are lost", lost, len(locks))
				}
			})
		})
	}
}
