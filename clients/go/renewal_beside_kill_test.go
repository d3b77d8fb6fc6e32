package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledWhileItIsRenewed: a renewal is on its way, with no look beside it, when the server tells that the owner was
// killed. Then it is answered, which says nothing of the lock, and nothing is heard any more.
func TestKilledWhileItIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
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
		p.tell(wire.EventKilled, "me", 12345)
		pass(100 * time.Millisecond)
		silent = true
		p.ok(a)
		pass(2 * askedWithin)
		if l.Err() == nil {
			t.Errorf("its owner was killed, and it counts as held for %v", time.Until(l.Deadline()))
		}
	})
}

// TestKilledAndNotLookedAt: the owner was killed, as the server tells, and had taken something else since: renewals are
// answered, and what it holds is not told, as the log is too busy. That is asked again and again, but not all the time.
func TestKilledAndNotLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		l, _ := taking(t, c, p, Owner("me"))
		busy, looks := false, 0
		p.lists = true
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case a.req.Op != wire.OpListLocks:
				return granted(a.req)
			case !busy:
				return heldFirst()
			}
			looks++
			p.refuse(a, wire.Unavailable)
			return nil
		})
		pass(10 * time.Second)
		must(t, l.Err())
		busy = true
		p.tell(wire.EventKilled, "me", 12345)
		pass(2 * askedWithin)
		if l.Err() == nil {
			t.Errorf("its owner was killed, and it counts as held for %v", time.Until(l.Deadline()))
		}
		if looks < 2 || looks > 150 {
			t.Errorf("it was asked %d times within two seconds", looks)
		}
	})
}

// heldFirst is the lock of taking, as it is told.
func heldFirst() *wire.Result {
	return &wire.Result{Done: true, List: &wire.List{Infos: []wire.LockInfo{
		{Path: "a:/b/c", HasFence: true, Fence: 7, SinceUnixMillis: 1},
	}}}
}
