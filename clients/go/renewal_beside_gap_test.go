package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAGapWhileItIsRenewed: a renewal is on its way, with no look beside it, when the server tells that events of the
// owner may have been missed: its end, for one. The renewal is answered, which says nothing of the lock, and nothing is
// heard any more. The lock counts for no longer than by the renewal before.
func TestAGapWhileItIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		l, _ := taking(t, c, p, Owner("me"))
		renewals, silent := make(chan *asked, 16), false
		p.lists = true
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case silent:
				return nil
			case a.req.Op == wire.OpListLocks:
				return heldFirst()
			case a.req.Op == wire.OpRenew && time.Until(l.Deadline()) < 50*time.Minute:
				renewals <- a
				return nil
			}
			return granted(a.req)
		})
		a := <-renewals
		before := l.Deadline()
		p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
		pass(100 * time.Millisecond)
		silent = true
		p.ok(a)
		pass(time.Second)
		if after := l.Deadline(); after.After(before) {
			t.Errorf("events were missed, and it counts as held for %v longer", after.Sub(before))
		}
	})
}
