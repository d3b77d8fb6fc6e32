package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnOldLeaderThatIsSlow: a node is cut off from its peers and not from the client: it answers pings, and everything else after
// request_timeout_ms. The others have a leader 3 s later, which is told. A lock is kept: its renewals go where its namespace leads.
func TestAnOldLeaderThatIsSlow(t *testing.T) {
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
		l, err := c.TryLock(context.Background(), in(0))
		mustLock(t, l, err)
		pass(5 * time.Second)
		close(off)
		pass(3 * time.Second)
		f.lead(0, 0, 0, 0)
		go func() { _ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(0)}}, false, "") }() // asked of n1 in the 3 s
		pass(0)
		f.tell()
		pass(28 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the lock: %v", err)
		}
		pass(time.Minute)
	})
}
