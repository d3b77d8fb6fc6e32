package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestNamedOnASlowWay: a lock of an owner that the program names, on a way that takes a fifth of the lock's TTL: it
// lasts, also as its owner's events begin to be told.
func TestNamedOnASlowWay(t *testing.T) {
	for _, of := range []struct{ ttl, r int }{{2000, 400}, {3000, 600}, {5000, 1000}, {10_000, 2000}} {
		for try := range 5 {
			t.Run(fmt.Sprintf("TTL %d ms, way %d ms, %d", of.ttl, of.r, try), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.telling(WithGrace(longGrace))
					p.lists = true
					go p.serve(func(a *asked) *wire.Result {
						res := granted(a.req)
						time.AfterFunc(time.Duration(of.r)*time.Millisecond, func() {
							if a.req.Op == wire.OpListLocks {
								res = p.taken.of(a.req.Owner)
							}
							p.reply(a.id, a.req.Op, res)
						})
						return nil
					})
					l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Duration(of.ttl)*time.Millisecond))
					mustLock(t, l, err)
					began := time.Now()
					for range 2000 {
						pass(10 * time.Millisecond)
						if l.Err() != nil {
							t.Fatalf("nothing was wrong, lost %v after it was granted: %v", time.Since(began), l.Err())
						}
					}
				})
			})
		}
	}
}
