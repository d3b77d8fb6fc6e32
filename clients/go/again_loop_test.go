package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOneDoubtIsNotAskedForEver: something is told once of the lease of an owner that the program names, whose events
// are not told, while a look is under way. What an owner holds takes longer to tell than a renewal takes. Nothing
// else happens.
func TestOneDoubtIsNotAskedForEver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		c.keeper.watch(0)
		p.lists = true
		renewals, looks := 0, 0
		go p.serve(func(a *asked) *wire.Result {
			d := 100 * time.Millisecond
			res := granted(a.req)
			switch a.req.Op {
			case wire.OpRenew:
				renewals++
			case wire.OpListLocks:
				looks++
				d, res = 200*time.Millisecond, heldFirst()
			}
			time.AfterFunc(d, func() { p.reply(a.id, a.req.Op, res) })
			return nil
		})
		l, err := c.Lock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(5 * time.Second)
		p.tell(wire.EventExpired, "me", 12345)
		pass(150 * time.Millisecond)
		p.tell(wire.EventExpired, "me", 12346)
		pass(5 * time.Second)
		must(t, l.Err())
		r0, l0 := renewals, looks
		pass(10 * time.Minute)
		must(t, l.Err())
		if r, k := renewals-r0, looks-l0; r > 10 || k > 10 {
			t.Errorf("within ten minutes in which nothing happened a lock of an hour was renewed %d times and "+
				"looked at %d times", r, k)
		}
	})
}
