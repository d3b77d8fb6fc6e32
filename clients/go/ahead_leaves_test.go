package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAheadLeavesNobodyGoes: renewals of the program's own take all that they may of the window, as their log does not
// answer. One more waits for room, and a wait for a path of another log behind it, for which there is room. The caller
// of the renewal goes: the wait is sent then.
func TestAheadLeavesNobodyGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithKeepAlive(time.Hour))
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick" {
				return nil
			}
			return granted(a.req)
		})
		l, err := c.TryLock(t.Context(), "a:/sick/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(2 * time.Second)
		room := func() bool {
			s := &c.home.session
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.mu.flying < s.mu.limits.ordered()
		}
		for room() {
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000, Domains: []string{"a:/sick"}}, nil)
		}
		pass(time.Second)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		go func() { _, _ = c.Renew(ctx, "me", time.Hour, "", 0, "a:/sick") }()
		pass(100 * time.Millisecond)
		granted := make(chan error, 1)
		c.Go(&wire.Request{
			Op: wire.OpAcquire, Owner: "else", TTLMillis: 60_000, Flags: wire.FlagWait,
			Locks: []wire.LockRequest{{Path: "a:/well/x"}},
		}, func(_ *wire.Result, err error) { granted <- err })
		pass(100 * time.Millisecond)
		if len(granted) > 0 {
			t.Fatal("it came before what was asked earlier")
		}
		pass(2 * time.Second)
		if len(granted) == 0 {
			t.Error("what is in its way is gone, and it is not sent")
		}
	})
}
