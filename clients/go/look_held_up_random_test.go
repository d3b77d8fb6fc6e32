package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLooksHeldUpAtRandom: questions are slow, refused, or hang at random; renewals are well. Another client of the
// owner gives a path back at a random time. The lock is believed in for three TTLs at most after that.
func TestLooksHeldUpAtRandom(t *testing.T) {
	for seed := range simNumber(t, seedsVar, 100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 9))
				c, s := newTimed(t)
				ttl := []time.Duration{3 * time.Second, 6 * time.Second, 30 * time.Second, 2 * time.Minute}[rnd.IntN(4)]
				s.takes(always(time.Millisecond, nil))
				var opts []LockOption
				if rnd.IntN(2) == 0 {
					opts = append(opts, Owner("me"))
					if rnd.IntN(2) == 0 {
						hours(t, c, "a:/b/hours")
						pass(time.Duration(rnd.IntN(20)) * time.Second)
					}
				}
				var l *Lock
				var err error
				if rnd.IntN(3) == 0 && opts != nil {
					l, err = c.TryLock(context.Background(), "a:/b/d", append(opts, TTL(ttl))...)
				} else {
					l, err = c.LockAll(context.Background(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}},
						append(opts, TTL(ttl))...)
				}
				mustLock(t, l, err)
				if rnd.IntN(3) > 0 {
					x, err := c.TryLock(context.Background(), "a:/b/e", Owner(l.Owner()), TTL(time.Hour))
					mustLock(t, x, err)
				}
				pass(time.Duration(rnd.IntN(int(5 * ttl))))
				must(t, l.Err())
				theirs := rand.New(rand.NewPCG(uint64(seed), 10)) // of the server
				hang, refuse := rnd.IntN(3) == 0, rnd.IntN(3) == 0
				rare := 1 + rnd.IntN(4)
				ends := time.Now().Add(time.Duration(rnd.IntN(int(4 * ttl))))
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op != wire.OpListLocks || time.Now().After(ends) {
						return time.Millisecond, false
					}
					switch {
					case theirs.IntN(rare) > 0:
						return time.Millisecond, false
					case hang && theirs.IntN(2) == 0:
						return time.Hour, false
					}
					return time.Duration(theirs.IntN(int(ttl))), false
				})
				if refuse {
					s.refuses(func(req *wire.Request) bool {
						return req.Op == wire.OpListLocks && time.Now().Before(ends) && theirs.IntN(2) == 0
					})
				}
				pass(time.Duration(rnd.IntN(int(4 * ttl))))
				if l.Err() != nil {
					return
				}
				d := believedFor(t, s, l, "a:/b/d")
				if d > 3*ttl+time.Second {
					t.Errorf("TTL %v, hang %v, refuse %v: believed in for %v", ttl, hang, refuse, d)
				}
			})
		})
	}
}
