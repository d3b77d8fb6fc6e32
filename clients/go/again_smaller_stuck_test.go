package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRepeatedRenewalsStopUsersInASmallerWindow: locks of a log that does not answer are renewed as the connection
// breaks, and the next one has a smaller window, where what is to be asked again of those has no room. The program's
// requests to another log go.
func TestRepeatedRenewalsStopUsersInASmallerWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
		var gone atomic.Bool
		serve := func(p *peer) {
			go p.serve(func(a *asked) *wire.Result {
				if a.req.Op == wire.OpRenew && gone.Load() {
					time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
					return nil
				}
				return granted(a.req)
			})
		}
		serve(p)
		for i := range 60 {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/sick/%d", i), TTL(30*time.Minute))
			mustLock(t, l, err)
		}
		gone.Store(true)
		s := &c.home.session
		for i := 0; ; i++ {
			pass(10 * time.Second)
			s.mu.Lock()
			n := s.mu.flying
			s.mu.Unlock()
			if n >= 20 {
				break
			}
			if i == 200 {
				t.Fatal("this shows nothing")
			}
		}
		way.cut(errUnreachable)
		pass(100 * time.Millisecond)
		way.cut(nil)
		p = f.accept()
		limits := testLimits
		limits.InFlight = 16
		p.welcome(limits)
		serve(p)
		pass(time.Second)
		began := time.Now()
		ctx, end := context.WithTimeout(t.Context(), 20*time.Minute)
		defer end()
		err := c.Release(ctx, "else", []wire.ReleaseRequest{{Path: "a:/well/x"}}, false, "")
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("a release of another log: %v after %v", err, took)
		}
	})
}
