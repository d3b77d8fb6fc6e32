package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestABindThatFailedLeavesNoGrace: a Bind with a short grace is refused (nothing was done) for as long as its caller
// waits. So its owner is bound to nothing, and its lease has the client's grace, 15 s: that the server is slow for half
// a second then costs no lock.
func TestABindThatFailedLeavesNoGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, _ := onLine(f)
		l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
		var slow atomic.Bool
		go p.serve(func(a *asked) *wire.Result {
			if slow.CompareAndSwap(true, false) {
				time.Sleep(500 * time.Millisecond)
			}
			if a.req.Op == wire.OpBind {
				return &wire.Result{Code: wire.Unavailable, Message: "nothing was done"}
			}
			return granted(a.req)
		})
		pass(3 * time.Second)
		ctx, leave := context.WithTimeout(context.Background(), time.Second)
		defer leave()
		if _, err := c.Bind(ctx, "o", 200*time.Millisecond, 0); err == nil {
			t.Fatal("bound")
		}
		pass(10 * time.Second)
		if d := time.Until(l.Deadline()); d < DefaultGrace/3 {
			t.Errorf("all is answered in time, and 10 s after the Bind the lock is sure for %v", d)
		}
		slow.Store(true)
		pass(8 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("one answer took 500 ms, with a grace of 15 s, and the lock is lost: %v", err)
		}
	})
}
