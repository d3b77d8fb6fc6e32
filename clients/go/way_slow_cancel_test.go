package pathlockd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestACancelBehindAnOldLeaderThatIsSlow: a lock is waited for in the queue, by way of a node that is then cut off from its peers and not
// from the client: it answers pings, and everything else after request_timeout_ms; what was cancelled it answers when it hears the log
// again. Another node leads since, which the client knows and which answers at once. The caller goes. The wait has to be ended where
// somebody hears of it: else it is granted to nobody, for its TTL; and its owner can take nothing else, on any path.
func TestACancelBehindAnOldLeaderThatIsSlow(t *testing.T) {
	for name, cutOff := range map[string]bool{"the old leader answers": false, "it is cut off": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				off := make(chan struct{})
				var mu sync.Mutex
				ended := time.Time{}
				f.serve = func(p *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpAcquire && a.req.Flags&wire.FlagWait != 0 { // somebody else has it
						p.send(wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
						return nil
					}
					select {
					case <-off:
						if cutOff && p.node == "n1" && a.req.Op != wire.OpPing {
							if a.req.Op != wire.OpCancel {
								time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
								return nil
							}
							return granted(a.req) // it is noted
						}
					default:
					}
					if a.req.Op == wire.OpCancel {
						mu.Lock()
						ended = time.Now()
						mu.Unlock()
						p.reply(a.req.Target, wire.OpAcquire, &wire.Result{Code: wire.Cancelled, Message: "cancelled"})
					}
					return granted(a.req)
				}
				beside, err := c.TryLock(context.Background(), in(1)) // the client holds something, at n0
				mustLock(t, beside, err)
				ctx, leave := context.WithCancel(context.Background())
				waited := make(chan error, 1)
				go func() {
					_, err := c.Lock(ctx, in(0), Owner("me"))
					waited <- err
				}()
				pass(5 * time.Second)
				close(off)
				pass(3 * time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(10 * time.Second)
				leave()
				if err := <-waited; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				// Of another namespace, whose leader was never away.
				l, err := c.TryLock(within(t, 2*time.Minute), in(2), Owner("me"))
				if err != nil {
					t.Errorf("another path: %v", err)
				} else {
					must(t, l.Unlock())
				}
				mu.Lock()
				if ended.IsZero() {
					t.Error("two minutes later the wait is in the queue still: it is granted to nobody, for its TTL")
				}
				mu.Unlock()
				must(t, beside.Unlock())
			})
		})
	}
}
