package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReboundOwnersLeaveRoom: the program has bound 300 owners, and holds a lock of a log where all is well. The connection breaks;
// on the next one another log has no leader, so that a bind is answered after 30 s: these leave room to the lock's renewals.
func TestReboundOwnersLeaveRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
		go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
		l, err := c.TryLock(t.Context(), "a:/well/mine", TTL(12*time.Second))
		mustLock(t, l, err)
		for i := range 300 {
			if _, err := c.Bind(t.Context(), fmt.Sprint("bound", i), longGrace, 0); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		p.Close()
		p = f.tells()
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpBind {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
				return nil
			}
			return granted(a.req)
		})
		pass(25 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the lock of the log where all is well is lost: %v", err)
		}
	})
}
