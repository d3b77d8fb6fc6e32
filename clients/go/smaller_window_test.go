package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestASmallerWindowOnTheNextConnection: a log has no leader, so that what it is asked is answered after 30 s
// (request_timeout_ms), and the client has 20 such requests open. Its node is restarted with a window of 8
// (max_concurrent_requests_per_connection). The client is back at once. A lock of another log, where all is well, is
// renewed there: of the window there is a reserve for renewals.
func TestASmallerWindowOnTheNextConnection(t *testing.T) {
	for name, open := range map[string]int{"few": 6, "many": 20} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(DefaultGrace))
				l := lockWith(t, c, p, TTL(time.Hour))
				serveOn := func(p *peer) {
					p.serve(func(a *asked) *wire.Result {
						if a.req.Owner == "slow" {
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
							return nil
						}
						return granted(a.req)
					})
				}
				go serveOn(p)
				for i := range open {
					c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow",
						Releases: []wire.ReleaseRequest{{Path: fmt.Sprintf("a:/slow/%d", i)}}}, nil)
				}
				pass(time.Second)
				p.Close()
				next := f.accept()
				next.tells = wire.FeatureLeases
				limits := testLimits
				limits.InFlight = 8
				next.welcome(limits)
				go serveOn(next)
				pass(20 * time.Second)
				if err := l.Err(); err != nil {
					t.Errorf("the client came back at once, and its lock is lost: %v", err)
				}
				pass(2 * time.Minute)
				_ = l.UnlockContext(context.Background())
			})
		})
	}
}
