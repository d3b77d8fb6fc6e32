package pathlockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOrderBehindAHeldRenewal: a program renews a lease for less, and asks for a path of the same namespace and owner
// for longer after that, both by Go. The log does not answer, and its share of the window is taken by renewals. The two
// are sent in their order: else the lease is shortened behind the acquire.
func TestOrderBehindAHeldRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		var mu sync.Mutex
		var order []string
		stuck := 0
		gone := false
		go p.serve(func(a *asked) *wire.Result {
			mu.Lock()
			defer mu.Unlock()
			if !gone {
				return granted(a.req)
			}
			if a.req.Owner == "me" && (a.req.Op == wire.OpAcquire ||
				a.req.Op == wire.OpRenew && a.req.TTLMillis == 5000) {
				order = append(order, a.req.Op.String())
			}
			if a.req.Op == wire.OpRenew {
				stuck++
			}
			if a.req.Op == wire.OpPing {
				return granted(a.req)
			}
			time.AfterFunc(10*time.Second, func() { p.ok(a) })
			return nil
		})
		p.send(wire.AppendTopology(nil, &wire.Topology{
			Self: "fake", Version: 1, GroupLogs: 1, Segments: 1, LogOf: []uint64{0}, Leaders: []string{"fake"},
			Nodes: []wire.NodeAddr{{NodeID: "fake", Native: "fake:1"}},
		}))
		pass(time.Second)
		if c.router.logs.Load() == nil {
			t.Fatal("this shows nothing")
		}
		for i := range 400 {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/b/%d", i), TTL(time.Minute))
			mustLock(t, l, err)
		}
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Second)
		mu.Lock()
		gone = true
		mu.Unlock()
		for i := 0; ; i++ {
			pass(time.Second)
			mu.Lock()
			n := stuck
			mu.Unlock()
			if n >= 128 {
				break
			}
			if i == 60 {
				t.Fatal("this shows nothing")
			}
		}
		c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 5000, Domains: []string{"a:/b"}}, nil)
		c.Go(&wire.Request{Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/more"}}}, nil)
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, " "); !strings.HasPrefix(strings.ToLower(got), "renew") {
			t.Errorf("asked were a renewal, then an acquire; the server got: %s", got)
		}
	})
}
