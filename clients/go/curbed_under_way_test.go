package pathlockd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewsItselfElsewhereMeanwhile: as TestRenewsItselfElsewhere, and the lock is asked for while the program renews
// its owner in another namespace of the handler, again and again, for hardly more than its way takes.
func TestRenewsItselfElsewhereMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		go p.serve(func(a *asked) *wire.Result {
			time.AfterFunc(80*time.Millisecond, func() { p.ok(a) })
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 { // so that one is under way at any time
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = c.Renew(ctx, "me", 100*time.Millisecond, "", 0, "a:/d")
				}
			})
			pass(27 * time.Millisecond)
		}
		l, err := c.Lock(ctx, "a:/b/c", TTL(30*time.Second), Owner("me"))
		mustLock(t, l, err)
		for range 50 {
			pass(100 * time.Millisecond)
			must(t, l.Err())
		}
		stop()
		all.Wait()
	})
}
