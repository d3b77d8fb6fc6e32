package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAheadLeavesNobodyGoes: renewals of the program's own take a half of the window, as their log does not answer. One more
// follows, and behind it a release of another log. The caller of the renewal goes. The release is sent.
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
		for range 128 {
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000, Domains: []string{"a:/sick"}}, nil)
		}
		pass(time.Second)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		go func() { _, _ = c.Renew(ctx, "me", time.Hour, "", 0, "a:/sick") }()
		pass(100 * time.Millisecond)
		began := time.Now()
		long, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		err = c.Release(long, "else", []wire.ReleaseRequest{{Path: "a:/well/x"}}, false, "")
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("a release of another log: %v after %v", err, took)
		}
	})
}
