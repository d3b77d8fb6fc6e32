package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewedWhileHomeIsSilent: the node of the home lane, which tells of the owner's events, hangs. The owner is
// killed, and takes something else by another client. A renewal that goes by another lane and is carried out then
// counts for nothing: home is given up ten seconds later, and the next one takes no subscription.
func TestRenewedWhileHomeIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, 1, 1, 1, 1)
		c := f.client(WithKeepAlive(DefaultKeepAlive))
		f.warm(c)
		for _, p := range f.hellos {
			p.lists = true
		}
		var armed, hung, looked atomic.Bool
		f.serve = func(p *peer, a *asked) *wire.Result {
			p.lists = true
			res := granted(a.req)
			switch {
			case hung.Load() && p.node == "n0":
				return nil
			case a.req.Op == wire.OpRenew && armed.Load() && p.node == "n1" && !hung.Load():
				hung.Store(true)
				f.mu.Lock()
				f.dead["n0"] = true
				f.mu.Unlock()
			case a.req.Op == wire.OpSubscribe && hung.Load():
				res = &wire.Result{Code: wire.ResourceExhausted, Message: "too many"}
			case a.req.Op == wire.OpListLocks && hung.Load():
				looked.Store(true)
				res = &wire.Result{Done: true, Flag: true, List: &wire.List{}}
			case a.req.Op == wire.OpListLocks:
				res = p.taken.of(a.req.Owner)
			}
			if a.req.Op != wire.OpPing {
				time.AfterFunc(50*time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
				return nil
			}
			return res
		}
		if f.goes(c, 0) != "n1" {
			t.Fatal("requests do not go by the lane")
		}
		l, err := c.TryLock(t.Context(), in(0), Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Minute)
		if !l.lease.watched {
			t.Fatal("not watched")
		}
		armed.Store(true)
		for !hung.Load() {
			pass(time.Second)
		}
		at := time.Now()
		pass(time.Minute)
		for l.Err() == nil && time.Since(at) < 3*time.Hour {
			pass(time.Second)
		}
		if d := time.Since(at); d > time.Minute {
			t.Errorf("it is believed in for %v after its owner was killed", d)
		}
	})
}
