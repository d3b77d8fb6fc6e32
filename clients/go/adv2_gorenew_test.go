package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2ShortRenewalByGo: a renewal of all that an owner has is in no order with those that keep
// its locks. When it is carried out after one of these, a lock lasts for what it says; the client
// knows that of Renew, and not of Go.
func TestAdv2ShortRenewalByGo(t *testing.T) {
	const short = 3 * time.Second
	for _, byGo := range []bool{false, true} {
		name := map[bool]string{false: "Renew", true: "Go"}[byGo]
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client()
				held := make(chan *Lock, 1)
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/c", Owner("me"), TTL(5*time.Minute))
					held <- mustLock(t, l, err)
				}()
				p.ok(p.want(wire.OpAcquire))
				l := <-held
				done := make(chan error, 1)
				if byGo {
					c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: millis(short)}, func(_ *wire.Result, err error) { done <- err })
				} else {
					go func() {
						_, err := c.Renew(context.Background(), "me", short, "", 0)
						done <- err
					}()
				}
				all := p.want(wire.OpRenew) // it asks every log, and one of them is slow
				if len(all.req.Domains) != 0 {
					t.Fatalf("%+v", all.req)
				}
				for { // what keeps the lock is carried out at once
					a := p.next()
					p.ok(a)
					if a.req.Op == wire.OpRenew && len(a.req.Domains) == 1 {
						break
					}
				}
				pass(time.Millisecond)
				at := time.Now() // now it is carried out
				p.ok(all)
				must(t, <-done)
				pass(time.Millisecond)
				if left := l.Deadline().Sub(at); left > short {
					t.Errorf("by the renewal that was carried out last the lock lasts %v more, and the client believes in it for %v", short, left)
				}
				go p.serve(func(a *asked) *wire.Result { // and somebody else takes it when that is over
					if a.req.Op == wire.OpRenew && time.Since(at) > short {
						return &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}
					}
					return granted(a.req)
				})
				pass(short + time.Second)
				if byGo && l.Err() == nil {
					t.Errorf("%v after that it is believed in", time.Since(at))
				}
			})
		})
	}
}
