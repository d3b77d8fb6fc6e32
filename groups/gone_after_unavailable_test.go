package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGoneAfterUnavailable: a client waits for a lock, another one behind it. Its connection breaks, it comes back and
// asks for the wait again. Then that connection ends as well, for good: a waiting acquire leaves the queue when its
// connection closes, at once. So it is when the wait that was asked again had its place by then; and when it was
// answered UNAVAILABLE before, as the log had no leader, and the client ended (or gave up) on that.
func TestGoneAfterUnavailable(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, takes := range map[string]bool{"with a leader": true, "without a leader": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
			holder, c, later := r.session(), r.session(), r.session()
			l := r.node.logOf(r.node.groupOf("h:/a"))
			holder.must(write("holder", path, time.Hour))
			id := r.next.Add(1)
			<-c.start(id, waiting(write("first", path, time.Hour))).queued
			behind := later.start(r.next.Add(1), waiting(write("second", path, time.Hour)))
			<-behind.queued
			before := c.session
			c.session = &wire.Session{ID: before.ID, Epoch: 2, Window: before.Window, First: r.next.Add(1)}
			r.node.Closed(before, false, true)
			later.must(release("nobody", "h:/a/n")) // behind what that brings about
			if takes {
				<-c.start(id, waiting(write("first", path, time.Hour))).queued
			} else {
				l.pauses(true)
				if res := c.start(id, waiting(write("first", path, time.Hour))).get(t,
					"the wait, asked again"); res.Code != wire.Unavailable {
					t.Fatalf("it is answered %+v", res)
				}
				l.pauses(false)
			}
			r.node.Closed(c.session, false, false)  // the client is gone, and says so
			later.must(release("nobody", "h:/a/n")) // behind that
			holder.must(release("holder", path))
			select {
			case res := <-behind.done:
				if res.Code != wire.OK || res.Status != wire.StatusOK {
					t.Errorf("the second is answered %+v", res)
				}
			case <-time.After(15 * time.Second):
				t.Errorf("15 s later the second still waits, and %q, whose connections all ended, holds %s for an hour",
					holder.inspect(path).Owner, path)
			}
		})
	}
}
