package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewsItselfOften: a program renews its owner itself, beside the client, again and again, for as long as the
// lock's TTL. Every renewal is answered, over a way of 200 ms.
func TestRenewsItselfOften(t *testing.T) {
	for name, tc := range map[string]struct {
		ttl, every time.Duration
		flags      wire.Flags
	}{
		"never":        {ttl: 0},
		"every minute": {ttl: 30 * time.Second, every: time.Minute},
		"every second": {ttl: 30 * time.Second, every: time.Second},
		"100 ms later": {ttl: 30 * time.Second, every: 100 * time.Millisecond},
		"for longer":   {ttl: time.Hour, every: 100 * time.Millisecond},
		"extended":     {ttl: 30 * time.Second, every: 100 * time.Millisecond, flags: wire.FlagExtend},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(200*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				l, err := c.Lock(context.Background(), "a:/b/c", TTL(30*time.Second), Owner("me"))
				mustLock(t, l, err)
				for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); pass(max(tc.every,
					100*time.Millisecond)) {
					if tc.ttl > 0 {
						_, err := c.Renew(context.Background(), "me", tc.ttl, "", tc.flags, "a:/b")
						must(t, err)
					}
					if err := l.Err(); err != nil {
						t.Fatalf("%v before the end: %v", time.Until(end), err)
					}
				}
			})
		})
	}
}
