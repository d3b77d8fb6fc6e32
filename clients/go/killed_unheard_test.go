package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledBySubscriptionMeanwhile: as TestKilledOfManyPathsMeanwhile, of a server that tells of kills by the owner's
// events alone: what was granted right before the event, and is not kept yet, is as doubtful as what is.
func TestKilledBySubscriptionMeanwhile(t *testing.T) {
	killed := sub1(wire.Event{Kind: wire.EventKilled, At: wire.Position{Log: 2, Index: 11}})
	for name, heard := range map[string]bool{"nothing is heard of the server": false, "it was taken after that": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				_, _ = taking(t, c, p, Owner("me"))
				p.ok(p.want(wire.OpSubscribe))
				p.ok(p.want(wire.OpRenew))
				got := make(chan *Lock, 1)
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/z", Owner("me"), TTL(time.Hour))
					if err != nil {
						t.Error(err)
					}
					got <- l
				}()
				a := p.wantPast(wire.OpAcquire)
				frames := wire.AppendReply(nil, a.id, wire.OpAcquire, granted(a.req))
				p.send(wire.AppendEvent(frames, killed))
				last := <-got
				go p.serve(func(a *asked) *wire.Result {
					if !heard {
						return nil
					}
					return granted(a.req)
				})
				pass(10 * time.Second)
				switch err := last.Err(); {
				case heard:
					must(t, err)
				case err == nil:
					t.Errorf("ten seconds after its owner was killed it counts as held for %v",
						time.Until(last.Deadline()))
				case errors.Is(err, ErrExpired):
					t.Error(err)
				}
			})
		})
	}
}
