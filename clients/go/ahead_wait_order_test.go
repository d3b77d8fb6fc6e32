package pathlockd

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOrderOfAWaitBehindAHeldRenewal: what may be unanswered is, as its log is slow. A program renews a lease for less,
// and then waits for a path of the same namespace and owner, for longer. There is room for the wait, as waits are
// counted apart, and not for the renewal. They are sent in their order.
func TestOrderOfAWaitBehindAHeldRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1<<12))
		var mu sync.Mutex
		var order []wire.Op
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Owner == "slow" || a.req.Owner == "me" && a.req.Op == wire.OpRenew && a.req.TTLMillis == 60_000 {
				time.AfterFunc(20*time.Second, func() { p.ok(a) })
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, a.req.Op)
			return granted(a.req)
		})
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Second)
		for range 240 {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow", Releases: []wire.ReleaseRequest{{Path: "a:/s/x"}}},
				nil)
		}
		for range 20 { // which take what the program's requests that go ahead may have
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 60_000, Domains: []string{"a:/b"}}, nil)
		}
		pass(time.Second)
		mu.Lock()
		order = nil
		mu.Unlock()
		c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 5000, Domains: []string{"a:/b"}}, nil)
		c.Go(&wire.Request{
			Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, Flags: wire.FlagWait,
			Locks: []wire.LockRequest{{Path: "a:/b/more"}},
		}, nil)
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		renewal, wait := slices.Index(order, wire.OpRenew), slices.Index(order, wire.OpAcquire)
		if renewal < 0 || wait < 0 || wait < renewal {
			t.Errorf("asked were a renewal, then a wait; the server got %v", order)
		}
	})
}
