package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRiskWhileLooking: as TestRiskBesideRenewals, but what an owner holds is told a little later. A renewal that is
// asked for while the look is under way is in doubt as well: the next look waits for it.
func TestRiskWhileLooking(t *testing.T) {
	for _, late := range []time.Duration{100, 600, 900} {
		late *= time.Millisecond
		for _, others := range []int{4000} {
			t.Run(fmt.Sprint(late, " beside ", others), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
					p.lists = true
					go p.serve(func(a *asked) *wire.Result {
						d := 100 * time.Millisecond
						if a.req.Op == wire.OpListLocks {
							d = late
						}
						time.AfterFunc(d, func() {
							if len(a.req.Locks) == 1 && a.req.Locks[0].Path == "a:/b/theirs" {
								p.reply(a.id, a.req.Op, &wire.Result{
									Status: wire.StatusConflict, Path: "a:/b/theirs", Owner: "they",
									Reason: wire.ReasonWriteLocked,
								})
								return
							}
							if a.req.Op == wire.OpListLocks {
								p.reply(a.id, a.req.Op, p.taken.of(a.req.Owner))
								return
							}
							p.ok(a)
						})
						return nil
					})
					mine, err := c.TryLock(t.Context(), "a:/b/mine", Owner("batch"), TTL(time.Hour))
					mustLock(t, mine, err)
					locks := lockAll(t.Context(), c, others, ofOneLog, lasting(12*time.Second))
					for range 40 {
						res, err := c.Acquire(t.Context(), &wire.Request{
							Owner: "batch", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
							Locks:    []wire.LockRequest{{Path: "a:/b/theirs"}},
							Releases: []wire.ReleaseRequest{{Path: "a:/b/mine"}},
						})
						if err != nil || res.Status != wire.StatusConflict {
							t.Fatal(res, err)
						}
						pass(730 * time.Millisecond)
					}
					if lost := lostOf(append(locks, mine), upTo(others, "others", "mine")); len(lost) > 0 {
						t.Errorf("lost are %v: %v", lost, mine.Err())
					}
				})
			})
		}
	}
}
