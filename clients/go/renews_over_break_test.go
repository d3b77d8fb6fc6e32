package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewsItselfOverABreak: a program renews its owner itself all the time, over a way of 200 ms, and each of the
// client's own renewals meets one of those. The connection breaks once, and the next one is there at once. Every
// renewal on it is answered, for minutes.
func TestRenewsItselfOverABreak(t *testing.T) {
	for name, own := range map[string]bool{"never": false, "all the time": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				serve := func(p *peer) {
					p.serve(func(a *asked) *wire.Result {
						time.AfterFunc(200*time.Millisecond, func() { p.ok(a) })
						return nil
					})
				}
				c, p := f.client(WithGrace(DefaultGrace))
				go serve(p)
				l, err := c.Lock(context.Background(), "a:/b/c", TTL(time.Minute), Owner("me"))
				mustLock(t, l, err)
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pass(100 * time.Millisecond) {
					if own {
						_, err := c.Renew(context.Background(), "me", time.Minute, "", 0, "a:/b")
						must(t, err)
					}
					must(t, l.Err())
				}
				p.Close()
				go serve(f.open())
				for began := time.Now(); time.Since(began) < 3*time.Minute; pass(100 * time.Millisecond) {
					if own {
						_, err := c.Renew(context.Background(), "me", time.Minute, "", 0, "a:/b")
						must(t, err)
					}
					if err := l.Err(); err != nil {
						t.Fatalf("%v after the break, with every renewal answered: %v", time.Since(began), err)
					}
				}
			})
		})
	}
}
