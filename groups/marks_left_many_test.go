package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitThatLeftBehindMany: a client waits for a lock. Meanwhile its owner gives back nine locks in another namespace
// of the same log, which the wait has nothing to do with. Then its connection breaks, and it asks for the wait again.
func TestWaitThatLeftBehindMany(t *testing.T) {
	for _, paths := range []int{replica.MaxSessionMarks, replica.MaxSessionMarks + 1} {
		t.Run(fmt.Sprint(paths, " paths"), func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.LogCount = 1 })
			c, other := r.session(), r.session()
			take, give := write("o", "g:/z/p0", time.Hour), release("o", "g:/z/p0")
			for i := 1; i < paths; i++ {
				p := fmt.Sprint("g:/z/p", i)
				take.Locks, give.Releases = append(take.Locks, wire.LockRequest{Path: p}),
					append(give.Releases, wire.ReleaseRequest{Path: p})
			}
			c.must(take)
			other.must(write("p", "h:/a/x", time.Hour))
			id := r.next.Add(1)
			o := c.start(id, waiting(write("o", "h:/a/x", time.Hour)))
			<-o.queued
			c.must(give)
			r.node.Closed(c.session, false, false)
			o.get(t, "the wait on the connection that broke")
			c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
				First: r.next.Add(1)}
			o = c.start(id, waiting(write("o", "h:/a/x", time.Hour)))
			select {
			case <-o.queued:
			case res := <-o.done:
				t.Errorf("nobody cancelled it, and nobody gave that path back: it is answered %+v", res)
			}
		})
	}
}
