package pathlockd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAheadOfAForgottenSessionLeavesAReserve: very many renewals of the program's are about a log that does not answer,
// and the connection breaks for so long that the server has forgotten the session. They leave the keeper its reserve on
// the next one.
func TestAheadOfAForgottenSessionLeavesAReserve(t *testing.T) {
	for _, broken := range []time.Duration{10 * time.Second, 60 * time.Second} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
				var seen atomic.Int64
				serve := func(p *peer) {
					go p.serve(func(a *asked) *wire.Result {
						if a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick" {
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
							return nil
						}
						if a.req.Op == wire.OpRenew {
							seen.Add(1)
						}
						return granted(a.req)
					})
				}
				serve(p)
				l, err := c.TryLock(t.Context(), "a:/sick/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				w, err := c.TryLock(t.Context(), "a:/well/one", TTL(2*time.Minute))
				mustLock(t, w, err)
				pass(time.Second)
				for range 3000 {
					c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000,
						Domains: []string{"a:/sick"}}, nil)
				}
				pass(time.Second)
				way.cut(errUnreachable)
				pass(broken)
				way.cut(nil)
				p = f.accept()
				p.welcome(testLimits)
				serve(p)
				pass(time.Second)
				s := &c.home.session
				s.mu.Lock()
				t.Logf("under way %d of %d, users' part is %d, that of what goes ahead %d", s.mu.flying,
					s.mu.limits.all, s.mu.limits.users, s.mu.limits.ordered())
				if s.mu.flying > s.mu.limits.ordered() {
					t.Errorf("what the program asks has %d of the window, of which %d are its", s.mu.flying,
						s.mu.limits.ordered())
				}
				s.mu.Unlock()
				pass(6 * time.Minute)
				if err := w.Err(); err != nil {
					t.Errorf("a lock of another log, renewed %d times: %v", seen.Load(), err)
				}
			})
		})
	}
}
