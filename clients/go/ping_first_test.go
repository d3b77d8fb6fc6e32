package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAPingBehindRenewals: a log has no leader for longer than a grace, and not for longer than a request may take; a
// client holds more locks there than its window takes requests: their renewals fill it, and more of them wait. The
// server answers everything else at once. A lock in another log lasts: "While it holds locks it asks for a sign of life
// three times within the grace" (doc.go), also in a full window (decision 0022: a refusal is an answer).
func TestAPingBehindRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const window = 16 // 1024 of a real server
		limits := testLimits
		limits.InFlight = window
		f := newFake(t)
		var mu sync.Mutex
		stopped, pings, hellos := false, 0, 0
		over := t.Context().Done()
		serve := func(p *peer) {
			open := 0
			p.serve(func(a *asked) *wire.Result {
				mu.Lock()
				defer mu.Unlock()
				if a.req.Op == wire.OpPing {
					pings++
				}
				about := a.req.Op == wire.OpRenew && strings.HasPrefix(a.req.Domains[0], "a:/stuck")
				switch {
				case open >= window && stopped:
					return &wire.Result{Code: wire.ResourceExhausted, Message: "in flight"}
				case about && stopped:
					open++
					return nil
				}
				return granted(a.req)
			})
		}
		go func() {
			for {
				select {
				case p := <-f.conns:
					mu.Lock()
					hellos++
					mu.Unlock()
					p.welcome(limits)
					go serve(p)
				case <-over:
					return
				}
			}
		}()
		c := dial(t, f.addr, WithDialer(f.dial))
		beside, err := c.TryLock(context.Background(), "a:/other/p", TTL(time.Hour))
		mustLock(t, beside, err)
		for i := range window + 4 {
			l, err := c.TryLock(context.Background(), fmt.Sprintf("a:/stuck/p%d", i), TTL(time.Minute))
			mustLock(t, l, err)
		}
		pass(5 * time.Second)
		mu.Lock()
		stopped, pings = true, 0
		mu.Unlock()
		for range 40 {
			pass(time.Second)
			mu.Lock()
			n, h := pings, hellos
			mu.Unlock()
			if err := beside.Err(); err != nil {
				t.Fatalf("%d pings came, %d connections: %v", n, h, err)
			}
		}
	})
}
