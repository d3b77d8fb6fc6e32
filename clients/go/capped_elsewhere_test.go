package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCappedOnTheNextConnection: an owner had a lock for an hour beside one for ten seconds, and gave it back: its
// lease lasts for an hour. The connection breaks, which leaves it the grace alone, and the renewal on the next one ten
// seconds. Meanwhile the program asks for ten minutes, which is refused. Then renewals are not heard any more, and
// pings are answered.
func TestCappedOnTheNextConnection(t *testing.T) {
	const grace, short = 20 * time.Second, 10 * time.Second
	for name, own := range map[string]bool{"the client alone": false, "the program besides": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.client(WithGrace(grace), WithKeepAlive(time.Second))
				p.serveAll()
				long, err := c.Lock(ctx, "a:/b/z", Owner("me"), TTL(time.Hour))
				mustLock(t, long, err)
				l, err := c.Lock(ctx, "a:/b/c", Owner("me"), TTL(short))
				mustLock(t, l, err)
				pass(30 * time.Second)
				must(t, long.Unlock())
				pass(30 * time.Second)
				must(t, l.Err())

				p.Close()
				broke := time.Now()
				p = f.open()
				renews := func() *asked { // the subscriptions are not heard of yet
					a := p.next()
					for a.req.Op != wire.OpRenew {
						a = p.next()
					}
					return a
				}
				renewal := renews()
				refused := make(chan error, 1)
				if own {
					go func() {
						_, err := c.Renew(ctx, "me", 10*time.Minute, "", 0, "a:/b")
						refused <- err
					}()
					asked := renews()
					p.ok(renewal)
					p.refuse(asked, wire.ResourceExhausted)
					if <-refused == nil {
						t.Fatal("this shows nothing")
					}
				} else {
					p.ok(renewal)
				}
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpRenew {
						return nil
					}
					return granted(a.req)
				})
				pass(time.Until(broke.Add(grace)) + 10*time.Millisecond)
				if l.Err() == nil {
					t.Errorf("its lease is over, and it is believed in for %v more", time.Until(l.Deadline()))
				}
			})
		})
	}
}
