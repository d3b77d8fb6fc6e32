package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestNamedWhileItIsRenewed: a program takes a lock without naming an owner, and then another path in the name of the
// lock's own owner, while a renewal of that is under way. Who was killed in between has a lease again by then, which
// the renewal finds where it comes behind the acquire: that does not count before it was looked what is held.
func TestNamedWhileItIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		renewals := make(chan *asked, 10)
		p.lists = true
		go p.serve(func(a *asked) *wire.Result {
			switch a.req.Op {
			case wire.OpRenew:
				renewals <- a
				return nil
			case wire.OpListLocks:
				return &wire.Result{Flag: true, Done: true, List: new(wire.List)}
			}
			return granted(a.req)
		})
		l, err := c.TryLock(t.Context(), "a:/b/c", TTL(30*time.Second))
		mustLock(t, l, err)
		renewal := <-renewals
		c.Go(&wire.Request{
			Op: wire.OpAcquire, Owner: l.Owner(), TTLMillis: 30_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/e"}},
		}, nil)
		pass(10 * time.Millisecond)
		p.ok(renewal)
		pass(time.Second)
		select {
		case renewal = <-renewals:
			p.ok(renewal)
		default:
		}
		pass(time.Second)
		if l.Err() == nil {
			t.Errorf("it is believed in until %v from now on, by a renewal that found what was taken in its "+
				"owner's name", time.Until(l.Deadline()))
		}
	})
}
