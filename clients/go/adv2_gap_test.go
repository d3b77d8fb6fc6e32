package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2GapOfAWatchedOwner: events of a lock's owner were missed, that it was killed among
// them. A renewal says only that the owner has a lease in the namespace, as it has when another
// client of it took something since; what it holds is not looked at.
func TestAdv2GapOfAWatchedOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		held := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(context.Background(), "a:/b/c", Owner("me"), TTL(time.Minute))
			held <- mustLock(t, l, err)
		}()
		p.ok(p.want(wire.OpAcquire))
		l := <-held
		killed, looks := false, 0
		go p.serve(func(a *asked) *wire.Result {
			switch a.req.Op {
			case wire.OpSubscribe:
				defer func() {
					go func() {
						time.Sleep(time.Second)
						killed = true // a:/b/c is somebody else's, and "me" has a:/b/d by another client
						gap := &wire.Progress{Subscription: 1, Cursor: []wire.Position{{Log: 2, Index: 9000}}}
						p.send(wire.AppendProgress(nil, wire.PushGap, gap))
					}()
				}()
			case wire.OpListLocks:
				if looks++; killed {
					return &wire.Result{Flag: true, List: &wire.List{Infos: []wire.LockInfo{{Owner: "me", Path: "a:/b/d"}}}}
				}
			}
			return granted(a.req)
		})
		pass(5 * time.Minute)
		if l.Err() == nil {
			t.Errorf("five minutes after the gap the lock is believed in; what its owner holds was asked for %d times", looks)
		}
	})
}
