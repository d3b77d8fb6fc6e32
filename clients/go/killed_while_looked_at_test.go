package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnEndThatIsToldDuringALook: while a look is under way (the owner's events were missed) it is told that its
// owner was killed, or that a lease of it ran out, which was of before. The server answers everything after 10 ms,
// and the lock is held all the time.
func TestAnEndThatIsToldDuringALook(t *testing.T) {
	for _, kind := range []wire.EventKind{wire.EventKilled, wire.EventExpired} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				p.lists = true
				armed := false
				go p.serve(func(a *asked) *wire.Result {
					res := granted(a.req)
					if a.req.Op == wire.OpListLocks {
						if res = heldFirst(); armed {
							armed = false
							time.AfterFunc(5*time.Millisecond, func() {
								p.send(wire.AppendEvent(nil,
									sub1(wire.Event{Kind: kind, At: wire.Position{Log: 2, Index: 12}})))
							})
						}
					}
					time.AfterFunc(10*time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
					return nil
				})
				l, err := c.Lock(t.Context(), "a:/b/c", Owner("me"), TTL(30*time.Second))
				mustLock(t, l, err)
				pass(5 * time.Second)
				armed = true
				p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
				pass(time.Minute)
				if err := l.Err(); err != nil {
					t.Errorf("it is held all the time, and everything is answered at once: %v", err)
				}
			})
		})
	}
}
