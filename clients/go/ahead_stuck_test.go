package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsOfAStuckLogHoldUpAll: a program asks for very many renewals of an owner by Go, whose log has no leader:
// they are answered after 30 s. Nothing is wrong with the other log, and more than a third of the window is free: what
// the program asks there is sent.
func TestRenewalsOfAStuckLogHoldUpAll(t *testing.T) {
	for _, one := range []struct{ window, renewals int }{{256, 128}, {256, 140}, {256, 230}, {16, 9}} {
		t.Run(fmt.Sprint(one.window, " ", one.renewals), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithWindow(one.window))
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick" {
						time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
						return nil
					}
					return granted(a.req)
				})
				l, err := c.TryLock(t.Context(), "a:/sick/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				well, err := c.TryLock(t.Context(), "a:/well/mine", TTL(time.Hour))
				mustLock(t, well, err)
				pass(2 * time.Second)
				for range one.renewals {
					c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000,
						Domains: []string{"a:/sick"}}, nil)
				}
				pass(time.Second)
				began := time.Now()
				ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				_, err = c.TryLock(ctx, "a:/well/other")
				if took := time.Since(began); err != nil || took > time.Second {
					t.Errorf("a lock of a log where all is well: %v after %v", err, took)
				}
				began = time.Now()
				err = well.Unlock()
				if took := time.Since(began); err != nil || took > time.Second {
					t.Errorf("unlock: %v after %v", err, took)
				}
				pass(time.Minute)
			})
		})
	}
}
