package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCancelOfAHeldRepeat: a wait that has its place in the queue is asked again on the next connection of its
// session, and is held back there by a move. Its cancel ends the place, too: nothing is granted after it was answered.
func TestCancelOfAHeldRepeat(t *testing.T) {
	r := newRig(t, nil)
	holder, c := r.session(), r.session()
	holder.must(write("holder", "h:/a/x", time.Hour))
	lost, id := r.next.Add(1), r.next.Add(1) // the first of the two is lost on its way, with the connection
	o := c.start(id, waiting(write("dead", "h:/a/x", time.Hour)))
	select {
	case <-o.queued:
	case <-time.After(patience):
		t.Fatal("it has no place")
	}
	undo := r.frozen("h:/a/b", "h:/a")
	// The connection breaks, and the client comes back to the same node: it asks again in the old order.
	before := c.session
	c.session = &wire.Session{ID: before.ID, Epoch: 2, Window: 256, First: r.next.Add(1)}
	r.node.Closed(before, false, true)
	first := c.start(lost, write("dead", "h:/a/y", time.Hour))
	r.held(1)
	again := c.start(id, waiting(write("dead", "h:/a/x", time.Hour)))
	r.held(2)
	r.node.Cancel(c.session, id)
	res := again.get(t, "the wait")
	if res.Code != wire.DeadlineExceeded && res.Code != wire.Cancelled {
		t.Fatalf("the wait that was cancelled is answered %+v", res)
	}
	undo()
	first.get(t, "what was held back")
	holder.must(release("holder", "h:/a/x")) // after the cancel was answered
	if owner := holder.inspect("h:/a/x").Owner; owner != "" {
		t.Errorf("the wait was cancelled and answered %v, and then h:/a/x was granted to %s", res.Code, owner)
	}
}
