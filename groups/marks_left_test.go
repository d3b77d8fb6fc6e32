package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitThatLeft: an owner holds x and waits for x and y. Meanwhile it gives x back: it goes on waiting. Then its
// connection breaks, and it asks for the wait again: "one that left the queue with its connection goes to the end"
// (PROTOCOL.md, section 3).
func TestWaitThatLeft(t *testing.T) {
	for name, breaks := range map[string]bool{"the connection stands": false, "the connection breaks": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			c, other := r.session(), r.session()
			c.must(write("o", "h:/a/x", time.Hour))
			other.must(write("p", "h:/a/y", time.Hour))
			both := func() *wire.Request {
				req := waiting(write("o", "h:/a/x", time.Hour))
				req.Locks = append(req.Locks, wire.LockRequest{Path: "h:/a/y"})
				return req
			}
			id := r.next.Add(1)
			o := c.start(id, both())
			<-o.queued
			c.must(release("o", "h:/a/x"))
			if breaks {
				r.node.Closed(c.session, false, false)
				o.get(t, "the wait on the connection that broke")
				c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
					First: r.next.Add(1)}
				o = c.start(id, both())
				select {
				case <-o.queued:
				case res := <-o.done:
					t.Fatalf("nobody cancelled it, nor named it in a release: it is answered %+v", res)
				}
			}
			other.must(release("p", "h:/a/y"))
			if res := o.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Errorf("it is answered %+v", res)
			}
		})
	}
}
