package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnUnheardBindEndsWithItsConnection: a Bind with a short grace is answered that nobody knows what became of it
// (code 4, as when its log changes its leader), and its caller's time is over. Then the connection breaks, and the
// client comes back at once. On the new connection the owner is bound to nothing, and its lease, which is renewed
// there, has the client's grace of 15 s (decision 0022: the lower grace counts up to the next connection at the
// latest). A minute later the server hangs for two seconds, which is what a grace of 15 s is for.
func TestAnUnheardBindEndsWithItsConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		binds bool
		named bool // and its owner's events are not told: 128 other leases' are
	}{
		"bound": {binds: true}, "no bind": {}, "bound by name": {true, true}, "no bind, by name": {false, true},
	} {
		binds := tc.binds
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.telling(WithGrace(DefaultGrace))
				opts := []LockOption{TTL(time.Hour)}
				if tc.named {
					opts = append(opts, Owner("o"))
					c.keeper.mu.Lock()
					c.keeper.mu.watching = maxWatched
					c.keeper.mu.Unlock()
				}
				l := lockWith(t, c, p, opts...)
				var hangs atomic.Int64 // until when the server does
				wait := func() { time.Sleep(time.Until(time.Unix(0, hangs.Load()))) }
				serve := func(a *asked) *wire.Result {
					wait()
					if a.req.Op == wire.OpBind {
						return &outcomeUnheard
					}
					return granted(a.req)
				}
				go p.serve(serve)
				go func() { // the connections that come
					for {
						select {
						case p := <-f.conns:
							p.tells = wire.FeatureLeases
							wait()
							p.welcome(testLimits)
							go p.serve(serve)
						case <-t.Context().Done():
							return
						}
					}
				}()
				pass(3 * time.Second)
				if binds {
					short, leave := context.WithTimeout(ctx, 500*time.Millisecond)
					if _, err := c.Bind(short, l.Owner(), time.Second, 0); err == nil {
						t.Fatal("bound")
					}
					leave()
				}
				p.Close() // between two renewals
				pass(time.Minute)
				must(t, l.Err())
				if d := time.Until(l.Deadline()); d < DefaultGrace/3 {
					t.Errorf("a minute after the client came back all is answered at once, and the lock is sure "+
						"for %v only", d)
				}
				hangs.Store(time.Now().Add(2 * time.Second).UnixNano())
				pass(10 * time.Second)
				if err := l.Err(); err != nil {
					t.Errorf("the server hung for 2 s, with a grace of 15 s, and the lock is lost: %v", err)
				}
			})
		})
	}
}
