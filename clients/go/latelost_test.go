package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALateLostRenewalLeavesALaterLock: a lock's lease is over, which its renewal is to tell; its owner takes another
// lock after that, under a lease of its own, and the answers come in the other order. The later lock is not lost by an
// answer that is older.
func TestALateLostRenewalLeavesALaterLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, peer := f.client(WithKeepAlive(time.Hour))
		renewals, releases := make(chan *asked, 9), make(chan *asked, 9)
		go peer.serve(func(a *asked) *wire.Result {
			switch a.req.Op {
			case wire.OpRenew:
				renewals <- a
				return nil
			case wire.OpRelease:
				releases <- a
			}
			return granted(a.req)
		})
		ctx := context.Background()
		first, err := c.TryLock(ctx, "a:/b/p", Owner("me"))
		mustLock(t, first, err)
		renewal := <-renewals // it finds no lease
		later, err := c.TryLock(ctx, "a:/b/q", Owner("me"))
		mustLock(t, later, err)
		peer.reply(renewal.id, renewal.req.Op, &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive})
		pass(time.Second)
		if later.Err() == nil {
			return // the answer is older than it
		}
		_ = later.Unlock()
		pass(time.Second)
		if len(releases) == 0 {
			t.Fatalf("the server granted it, was never told that it is not wanted, and the client says: %v",
				later.Err())
		}
	})
}
