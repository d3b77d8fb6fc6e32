package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOpenQuestionsAreBounded: listings are answered late, at random, while locks come whose tokens are about to be
// raised. "No more than two of one lease have no answer" (decision 0022).
func TestOpenQuestionsAreBounded(t *testing.T) {
	const allowed = 2
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				c, s := newTimed(t)
				ttl := []time.Duration{3 * time.Second, 6 * time.Second}[rnd.IntN(2)]
				n := []int{10, 600, 1200}[rnd.IntN(3)]
				manyBefore(t, c, n)
				l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
				mustLock(t, l, err)
				s.takes(always(time.Millisecond, nil))
				pass(3 * ttl)
				most, of := 0, 0
				share := 3 + rnd.IntN(6)
				theirs := rand.New(rand.NewPCG(seed, 6))
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					c.keeper.mu.Lock()
					for _, le := range c.keeper.mu.leases {
						if most = max(most, le.asides); le.name.owner == "me" {
							of = le.joined
						}
					}
					c.keeper.mu.Unlock()
					if req.Op == wire.OpListLocks && theirs.IntN(share) == 0 {
						return 40 * time.Second, false
					}
					return time.Millisecond, false
				})
				for i := range 60 {
					pass(ttl)
					if rnd.IntN(2) == 0 {
						p := fmt.Sprintf("a:/b/z%d", i)
						if !s.rival(p) {
							t.Fatal("this shows nothing: the rival has it not")
						}
						raised := fmt.Sprintf("a:/b/y%d", i)
						ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
						go func() {
							defer cancel()
							_, _ = c.LockAll(ctx, []Path{{Path: raised}, {Path: p}}, Owner("me"), TTL(time.Minute))
						}()
						pass(time.Millisecond)
						_, _ = c.TryLock(t.Context(), raised, Owner("me"), TTL(time.Minute))
					}
				}
				pass(10 * time.Minute)
				if most > allowed {
					t.Errorf("%d questions beside the renewals had no answer (%d paths before, TTL %v, %d locks)",
						most, n, ttl, of)
				}
			})
		})
	}
}
