package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnavailableKeepsThePlace: a client waits for a lock, first in the queue, and another one behind it. Its
// connection breaks, and it comes back within the second; it asks for the wait again. The log has no leader just then,
// for request_timeout_ms: it is answered UNAVAILABLE, and asks once more with the same id, as PROTOCOL.md has it
// (section 3, "Code 14 is about the time that it answers"), on the connection that stands. It never gave its place up,
// and its time in the queue is an hour: the other one does not pass it.
func TestUnavailableKeepsThePlace(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, takes := range map[string]bool{"with a leader": true, "without a leader": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
			holder, c, later := r.session(), r.session(), r.session()
			l := r.node.logOf(r.node.groupOf("h:/a"))
			holder.must(write("holder", path, time.Hour))
			wait := func(owner string) *wire.Request {
				req := waiting(write(owner, path, time.Hour))
				req.QueueTTLMillis = 3_600_000
				return req
			}
			id := r.next.Add(1)
			<-c.start(id, wait("first")).queued
			behind := later.start(r.next.Add(1), wait("second"))
			<-behind.queued
			before := c.session
			c.session = &wire.Session{ID: before.ID, Epoch: 2, Window: before.Window, First: r.next.Add(1)}
			r.node.Closed(before, false, true)
			later.must(release("nobody", "h:/a/n")) // behind what that brings about
			var again *outcome
			if takes {
				again = c.start(id, wait("first"))
			} else {
				l.pauses(true)
				if res := c.start(id, wait("first")).get(t, "the wait, asked again"); res.Code != wire.Unavailable {
					t.Fatalf("it is answered %+v", res)
				}
				l.pauses(false)
				later.must(release("nobody", "h:/a/n")) // behind what that brings about
				again = c.start(id, wait("first"))
			}
			<-again.queued
			holder.must(release("holder", path))
			select {
			case res := <-again.done:
				if res.Code != wire.OK || res.Status != wire.StatusOK {
					t.Errorf("the first is answered %+v", res)
				}
			case res := <-behind.done:
				t.Errorf("the second in the queue passes the first, and is answered %v %v", res.Code, res.Status)
			case <-time.After(patience):
				t.Error("nobody is granted it")
			}
		})
	}
}
