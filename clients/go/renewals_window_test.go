package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsAtALogWithoutALeader: a program holds many locks of one log, and one of another log on the same
// connection. The first log has no leader from some time on, so that the renewals of its locks are answered after 30 s
// (request_timeout_ms) that they were not carried out. The node answers all else at once. The lock of the other log is
// kept; also when the node is started anew meanwhile, with a smaller window.
func TestRenewalsAtALogWithoutALeader(t *testing.T) {
	for name, one := range map[string]struct{ many, window int }{
		"200": {200, 0}, "400": {400, 0}, "a smaller window": {400, 64},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace))
				var gone atomic.Bool
				var renewals atomic.Int64
				serveOn := func(p *peer) {
					p.serve(func(a *asked) *wire.Result {
						if gone.Load() && a.req.Op == wire.OpRenew && strings.HasPrefix(a.req.Domains[0], "a:/slow") {
							renewals.Add(1)
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
							return nil
						}
						return granted(a.req)
					})
				}
				go serveOn(p)
				limits := testLimits
				if one.window > 0 {
					limits.InFlight = uint64(one.window)
				}
				go func() {
					for {
						select {
						case p := <-f.conns:
							p.tells = wire.FeatureLeases
							p.welcome(limits)
							go serveOn(p)
						case <-t.Context().Done():
							return
						}
					}
				}()
				for i := range one.many {
					l, err := c.TryLock(ctx, fmt.Sprintf("a:/slow/%d", i))
					mustLock(t, l, err)
				}
				pass(3 * time.Second)
				l, err := c.TryLock(ctx, "a:/well/x")
				mustLock(t, l, err)
				pass(3 * time.Second)
				gone.Store(true)
				for i := range 40 {
					if pass(time.Second); i == 10 && one.window > 0 {
						_ = p.Close()
					}
					if err := l.Err(); err != nil {
						t.Errorf("the lock of the log where all is well is lost: %v", err)
						break
					}
				}
				if renewals.Load() < int64(min(one.many, int(testLimits.InFlight))/2) {
					t.Errorf("%d renewals were asked of the log without a leader: this shows nothing", renewals.Load())
				}
				gone.Store(false)
				pass(time.Minute)
			})
		})
	}
}

// TestRenewalsBesideStuckUsersAndLocks: a log has no leader, and the program's requests to it fill what users may have,
// and renewals of its locks what is left of the window: but for a place that a lock of another log is renewed by.
func TestRenewalsBesideStuckUsersAndLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
		var gone atomic.Bool
		go p.serve(func(a *asked) *wire.Result {
			if gone.Load() && (a.req.Owner == "sick" || a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick") {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
				return nil
			}
			return granted(a.req)
		})
		for i := range 300 {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/sick/%d", i), TTL(12*time.Second))
			mustLock(t, l, err)
		}
		l, err := c.TryLock(t.Context(), "a:/well/x", TTL(12*time.Second))
		mustLock(t, l, err)
		gone.Store(true)
		for range 600 {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: "a:/sick/y"}}},
				nil)
		}
		pass(40 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the lock of the log where all is well is lost: %v", err)
		}
		gone.Store(false)
		pass(2 * time.Minute)
	})
}
