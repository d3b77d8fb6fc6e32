package pathlockd

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsCountByLaterLooks: a lease ends that nobody tells of, and its owner gets another one, which renewals
// find. The owner is one that the program names, and whose events are not told; or one that the client made up, which
// is killed just before the program acquires something in its name. Renewals and looks are carried out and answered
// as late as it comes, in any order. A renewal that was carried out after that end does not count, whatever a look
// says that was before it.
func TestRenewalsCountByLaterLooks(t *testing.T) {
	for _, named := range []bool{true, false} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint("named ", named, ", seed ", seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) { renewalsByLooks(t, named, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func renewalsByLooks(t *testing.T, named bool, rng *rand.Rand) {
	const ttl = 30 * time.Second
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace))
	c.keeper.watch(0)
	p.lists = true
	var mu sync.Mutex
	gone, good := false, time.Now() // when the last renewal of the lease was sent
	late := func(most int) time.Duration { return time.Duration(rng.IntN(most)*rng.IntN(2)) * time.Millisecond }
	go p.serve(func(a *asked) *wire.Result {
		mu.Lock()
		defer mu.Unlock()
		if a.req.Op != wire.OpRenew && a.req.Op != wire.OpListLocks {
			return granted(a.req)
		}
		answered := late(4000)
		time.AfterFunc(late(5000), func() { // it is carried out
			mu.Lock()
			defer mu.Unlock()
			res := granted(a.req)
			switch {
			case a.req.Op == wire.OpRenew && !gone:
				good = a.at
			case a.req.Op == wire.OpListLocks && gone:
				res = &wire.Result{Flag: true, Done: true, List: new(wire.List)}
			case a.req.Op == wire.OpListLocks:
				res = p.taken.of(a.req.Owner)
			}
			time.AfterFunc(answered, func() { p.reply(a.id, a.req.Op, res) })
		})
		return nil
	})
	opts := []LockOption{TTL(ttl)}
	if named {
		opts = append(opts, Owner("me"))
	}
	l, err := c.TryLock(t.Context(), "a:/b/c", opts...)
	mustLock(t, l, err)
	ends := time.Now().Add(5*time.Second + time.Duration(rng.IntN(30_000))*time.Millisecond)
	for range 2000 {
		pass(50 * time.Millisecond)
		mu.Lock()
		if !gone && !time.Now().Before(ends) {
			if gone = true; !named {
				c.Go(waitFor(l.Owner(), "a:/b/e"), nil)
			}
		}
		if over := l.Deadline().Sub(good.Add(ttl)); l.Err() == nil && over > 0 {
			t.Errorf("it is believed in for %v longer than by the last renewal of its lease", over)
		}
		mu.Unlock()
		if l.Err() != nil {
			break
		}
	}
	if l.Err() == nil {
		t.Error("it is not lost")
	}
	if !gone {
		t.Errorf("it is lost, and nothing was wrong: %v", l.Err())
	}
}
