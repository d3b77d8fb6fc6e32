package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnansweredOfAnotherNamespace: an owner that the program names has a lock in each of two namespaces, which two
// nodes lead. One node dies with a renewal of its namespace unanswered, and the other one takes no further
// connections for a while. It answers every renewal of the other lock, on a connection that is whole all the time:
// "nothing it does in one namespace touches its locks in another" (contract, section 5).
func TestUnansweredOfAnotherNamespace(t *testing.T) {
	for name, owners := range map[string][2]string{"one owner": {"me", "me"}, "two owners": {"me", "you"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 1, 0, 0)
				var silent atomic.Bool
				var renewed atomic.Int64
				f.serve = func(p *peer, a *asked) *wire.Result {
					if p.node == "n1" && silent.Load() {
						return nil
					}
					if a.req.Op == wire.OpRenew && a.req.Owner == owners[0] && a.req.Domains[0] == namespaceOf(in(0)) {
						renewed.Add(1)
					}
					return granted(a.req)
				}
				c := f.client(WithGrace(6 * time.Second))
				f.warm(c)
				here, err := c.Lock(context.Background(), in(0), Owner(owners[0]), TTL(30*time.Second))
				mustLock(t, here, err)
				there, err := c.Lock(context.Background(), in(1), Owner(owners[1]), TTL(3*time.Second))
				mustLock(t, there, err)
				pass(5 * time.Second)
				must(t, here.Err())
				must(t, there.Err())
				silent.Store(true)
				pass(1500 * time.Millisecond) // a renewal of the other lock is under way
				f.mu.Lock()
				f.dead["n0"] = true // it takes no more connections
				f.mu.Unlock()
				f.kill("n1")
				pass(time.Second)
				before := renewed.Load()
				for range 60 {
					pass(time.Second)
					if err := here.Err(); err != nil {
						t.Fatalf("%d renewals were answered on a connection that is whole, and: %v",
							renewed.Load()-before, err)
					}
				}
			})
		})
	}
}
