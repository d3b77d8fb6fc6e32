package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAWaitAfterAShorteningOfUnknownOutcome: a program renews an owner for a second, and nobody knows what became of
// it: its caller's context ended. Ten seconds later it waits for a lock of that owner, for five seconds, as somebody
// else has it. It is granted, and the connection is whole: what is handed out is held. (It was granted long after the
// renewal for a second was sent, and a renewal before it is handed out would say so: "Otherwise the lease is renewed,
// and measured from that, before the lock is handed out; also if ... the program renewed it for less", acquire.go
// settle.)
func TestAWaitAfterAShorteningOfUnknownOutcome(t *testing.T) {
	for name, unknown := range map[string]bool{"known": false, "unknown": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * time.Minute)
				f := newFake(t)
				c, p := f.client()
				ctx, cancel := context.WithCancel(context.Background())
				told := make(chan error, 1)
				go func() {
					_, err := c.Renew(ctx, "me", time.Second, "", 0)
					told <- err
				}()
				under := p.want(wire.OpRenew)
				if unknown {
					p.refuse(under, wire.DeadlineExceeded)
					cancel()
				} else {
					p.ok(under)
				}
				<-told
				cancel()
				waited := make(chan *asked, 1)
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpAcquire {
						waited <- a
						return nil
					}
					return granted(a.req)
				})
				pass(10 * time.Second)
				for i := range 3 {
					got := make(chan *Lock, 1)
					go func() {
						l, err := c.Lock(context.Background(), "a:/b/c", Owner("me"), TTL(time.Minute))
						mustLock(t, l, err)
						got <- l
					}()
					a := <-waited
					p.send(wire.AppendQueued(nil,
						&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
					pass(5 * time.Second)
					p.ok(a)
					l := <-got
					pass(time.Millisecond)
					if err := l.Err(); err != nil {
						t.Errorf("the %d. lock that is handed out is lost at once, with nothing wrong: %v", i+1, err)
					}
					_ = l.Unlock()
				}
				_ = c.Close()
			})
		})
	}
}

// TestAWaitCostsWhatIsHeld: the same, and the owner holds another lock all the time, which is renewed often enough for
// a lease of a second. It is lost along with the one that is handed out.
func TestAWaitCostsWhatIsHeld(t *testing.T) {
	for name, unknown := range map[string]bool{"known": false, "unknown": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * time.Minute)
				f := newFake(t)
				c, p := f.client()
				held := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
				ctx, cancel := context.WithCancel(context.Background())
				told := make(chan error, 1)
				go func() {
					_, err := c.Renew(ctx, "me", time.Second, "", 0)
					told <- err
				}()
				under := p.want(wire.OpRenew)
				for under.req.TTLMillis != 1000 {
					p.ok(under)
					under = p.want(wire.OpRenew)
				}
				if unknown {
					p.refuse(under, wire.DeadlineExceeded)
					cancel()
				} else {
					p.ok(under)
				}
				<-told
				cancel()
				waited := make(chan *asked, 1)
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpAcquire {
						waited <- a
						return nil
					}
					return granted(a.req)
				})
				pass(10 * time.Second)
				must(t, held.Err())
				got := make(chan *Lock, 1)
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/other", Owner("me"), TTL(time.Minute))
					mustLock(t, l, err)
					got <- l
				}()
				a := <-waited
				p.send(wire.AppendQueued(nil,
					&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				pass(5 * time.Second)
				must(t, held.Err())
				p.ok(a)
				l := <-got
				pass(time.Millisecond)
				if err := l.Err(); err != nil {
					t.Errorf("the lock that is handed out is lost at once, with nothing wrong: %v", err)
				}
				if err := held.Err(); err != nil {
					t.Errorf("and so is the one that was held all the time: %v", err)
				}
				_ = c.Close()
			})
		})
	}
}
