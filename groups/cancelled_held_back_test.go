package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCancelledWhileHeldBack: a client gives up a waiting acquire that is held back by a move, with a cancel and a
// release that names it. Its node answers it, no log hears of it, and the release is carried out after the move. The
// connection breaks before any answer came. Asked again in the old order, the acquire does not take what the release is
// not carried out for again.
func TestCancelledWhileHeldBack(t *testing.T) {
	const path = "h:/a/b/x"
	r := newRig(t, nil)
	c, other := r.session(), r.session()
	undo := r.frozen("h:/a/b", "h:/a")
	take, give := r.next.Add(1), r.next.Add(1)
	back := release("o", path)
	back.Target = take
	a := c.start(take, waiting(write("o", path, time.Hour)))
	r.held(1)
	r.node.Cancel(c.session, take)
	b := c.start(give, back)
	r.held(1)
	undo()
	first := a.get(t, "the wait") // these are lost with the connection
	b.get(t, "the release")
	r.node.Closed(c.session, false, false)
	c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
		First: r.next.Add(1)}
	a = c.start(take, waiting(write("o", path, time.Hour)))
	r.node.Cancel(c.session, take)
	b = c.start(give, back)
	taken, given := a.get(t, "the wait, asked again"), b.get(t, "the release, asked again")
	if given.Code != wire.OK {
		t.Fatalf("the release is answered %+v", given)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("the wait was answered %v and now %v %v, the release that takes it back OK, and %s is held by %q "+
			"for an hour",
			first.Code, taken.Code, taken.Status, path, owner)
	}
}
