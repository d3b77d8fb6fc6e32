package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReboundOwnersLeaveRoom: the program has bound 300 owners, and holds a lock of a log where all is well. The
// connection breaks; on the next one another log has no leader, so that a bind is answered after 30 s: these leave
// room to the lock's renewals.
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

// TestReboundOnTheLatestConnection: owners are to be bound again, more than there is room for, as the connection
// breaks once more. On the next one each of them is bound once: what was not sent on the one before is not sent at
// all.
func TestReboundOnTheLatestConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
		go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
		for i := range 300 {
			if _, err := c.Bind(t.Context(), fmt.Sprint("bound", i), longGrace, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, answers := range []bool{false, true} {
			p.Close()
			p = f.tells()
			came := make(map[string]int)
			go p.serve(func(a *asked) *wire.Result {
				if a.req.Op != wire.OpBind {
					return granted(a.req)
				}
				if came[a.req.Owner]++; !answers {
					return nil
				}
				time.AfterFunc(time.Millisecond, func() { p.ok(a) })
				return nil
			})
			pass(time.Second)
			twice := 0
			for _, n := range came {
				if n > 1 {
					twice++
				}
			}
			if all := len(came) == 300; all != answers || twice > 0 {
				t.Errorf("answered %v: %d owners are bound, %d of them twice", answers, len(came), twice)
			}
		}
	})
}
