package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSinceOfAnEarlierHold: what an owner holds is asked before a read lock is given back and the path taken anew, and
// answered after that. Since when the earlier one was held says nothing of the later one, which is not lost at the next
// look.
func TestSinceOfAnEarlierHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, peer := f.client()
		peer.lists = true
		const p, q = "a:/b/p", "a:/b/q"
		says := func(since int64) *wire.Result {
			return &wire.Result{Flag: true, Done: true, List: &wire.List{Infos: []wire.LockInfo{
				{Owner: "me", Path: p, Mode: Read, SinceUnixMillis: since},
				{Owner: "me", Path: q, HasFence: true, Fence: 7, SinceUnixMillis: 1000},
			}}}
		}
		var anew atomic.Bool
		early := make(chan *asked, 1)
		go peer.serve(func(a *asked) *wire.Result {
			switch {
			case a.req.Op != wire.OpListLocks:
				return granted(a.req)
			case anew.Load():
				return says(2000)
			}
			select {
			case early <- a: // answered later
				return nil
			default:
				return says(1000)
			}
		})
		ctx := context.Background()
		first, err := c.RLock(ctx, p, Owner("me"))
		mustLock(t, first, err)
		beside, err := c.Lock(ctx, q, Owner("me"))
		mustLock(t, beside, err)
		question := <-early
		must(t, first.Unlock())
		later, err := c.RLock(ctx, p, Owner("me")) // a writer may have had it between
		mustLock(t, later, err)
		anew.Store(true)
		peer.reply(question.id, question.req.Op, says(1000))
		for range 120 {
			pass(time.Second)
			if err := later.Err(); err != nil {
				t.Fatalf("the server says that it is held, since it was taken: %v", err)
			}
		}
		must(t, beside.Err())
	})
}
