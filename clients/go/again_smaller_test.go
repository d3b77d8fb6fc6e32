package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARepeatedRenewalBehindASmallerWindow: a server is started anew, with a smaller window (in_flight), while a
// renewal and more requests of the program are under way than users' requests may take of that. Those are of a log
// without a leader, and answered after half a minute; the lock is of another, where all is well. What is asked again
// leaves renewals their reserve: also one that is asked again itself.
func TestARepeatedRenewalBehindASmallerWindow(t *testing.T) {
	for _, under := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f := newFake(t)
			c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
			var dead atomic.Bool
			var renewals atomic.Int64
			serve := func(p *peer) {
				go p.serve(func(a *asked) *wire.Result {
					switch {
					case a.req.Op == wire.OpRelease && a.req.Owner == "sick":
						time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
						return nil
					case a.req.Op == wire.OpRenew:
						if renewals.Add(1); dead.Load() {
							return nil
						}
					}
					return granted(a.req)
				})
			}
			serve(p)
			l, err := c.Lock(context.Background(), "a:/b/c", TTL(30*time.Second))
			mustLock(t, l, err)
			pass(8 * time.Second)
			for range 40 {
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick",
					Releases: []wire.ReleaseRequest{{Path: "a:/s/x"}}}, nil)
			}
			dead.Store(under)
			for i, before := 0, renewals.Load(); renewals.Load() == before; i++ { // it is under way
				if pass(100 * time.Millisecond); i == 100 {
					t.Fatal("this shows nothing")
				}
			}
			way.cut(errUnreachable)
			pass(100 * time.Millisecond)
			dead.Store(false)
			way.cut(nil)
			p = f.accept()
			limits := testLimits
			limits.InFlight = 32
			p.welcome(limits)
			serve(p)
			pass(25 * time.Second)
			if err := l.Err(); err != nil {
				t.Errorf("renewal under way at the break: %v; %d renewals came; the lock is lost: %v", under,
					renewals.Load(), err)
			}
			_ = c.Close()
		})
	}
}
