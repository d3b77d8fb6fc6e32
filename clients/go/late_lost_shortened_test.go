package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALateLostForgetsAShortening: an owner's lease was taken away by the operator. A renewal of it is carried out
// (LOST), then an acquire of the owner is, which begins another lease, then the program renews the owner for a second.
// The answers come in another order ("replies may come in any order"): that of the renewal last. Then the server is not
// heard any more. The lease has a second; the control is that the renewal's answer does not come at all.
func TestALateLostForgetsAShortening(t *testing.T) {
	const short = time.Second
	for name, told := range map[string]bool{"the answer does not come": false, "it comes last": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				var late atomic.Pointer[asked]
				var deaf atomic.Bool
				l := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
				go p.serve(func(a *asked) *wire.Result {
					switch {
					case deaf.Load():
						return nil
					case a.req.Op == wire.OpListLocks:
						return nil // it takes long
					case a.req.Op == wire.OpRenew && a.req.Flags&wire.FlagExtend != 0 && late.Load() == nil:
						late.Store(a)
						return nil
					}
					return granted(a.req)
				})
				pass(21 * time.Second)
				if late.Load() == nil {
					t.Fatal("it was not renewed")
				}
				second, err := c.TryLock(ctx, "a:/b/d", Owner("me"), TTL(time.Minute))
				mustLock(t, second, err)
				if _, err := c.Renew(ctx, "me", short, "", 0); err != nil {
					t.Fatal(err)
				}
				deaf.Store(true)
				if d := time.Until(second.Deadline()); d > short {
					t.Fatalf("sure for %v", d)
				}
				if told {
					p.reply(late.Load().id, wire.OpRenew, &wire.Result{Status: wire.StatusLost})
				}
				pass(short + short/2)
				if told && l.Err() == nil {
					t.Error("the first is not lost")
				}
				if err := second.Err(); err == nil {
					t.Errorf("its owner was renewed for %v, %v ago, and nothing was heard since; it counts as held "+
						"for %v more",
						short, short+short/2, time.Until(second.Deadline()))
				}
			})
		})
	}
}
