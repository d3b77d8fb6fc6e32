package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnOldLeaderThatIsSlowAndNoLocks: as TestAnOldLeaderThatIsSlow, of a client that holds no lock: what it asks for behind a
// request that the old leader does not answer waits for about slowWay, and not for request_timeout_ms.
func TestAnOldLeaderThatIsSlowAndNoLocks(t *testing.T) {
	for name, holds := range map[string]bool{"it holds a lock": true, "it holds none": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				off := make(chan struct{})
				f.serve = func(p *peer, a *asked) *wire.Result {
					select {
					case <-off:
						if p.node == "n1" && a.req.Op != wire.OpPing {
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
							return nil
						}
					default:
					}
					return granted(a.req)
				}
				if holds {
					l, err := c.TryLock(context.Background(), in(1))
					mustLock(t, l, err)
				}
				pass(5 * time.Second)
				close(off)
				go func() { _ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(0)}}, false, "") }()
				pass(time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(0)
				asked := time.Now()
				l, err := c.TryLock(within(t, time.Minute), in(0))
				mustLock(t, l, err)
				if d := time.Since(asked); d > 3*slowWay {
					t.Errorf("the lock took %v, though its leader answers at once", d)
				}
				pass(time.Minute)
			})
		})
	}
}
