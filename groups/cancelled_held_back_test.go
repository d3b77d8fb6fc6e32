package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv12CancelledWhileHeldBack: a client gives up a waiting acquire that is held back by a move, with a cancel and a release that
// names it, as PROTOCOL.md says. It is answered CANCELLED by its node alone (Node.cancelHeld: no log hears of it), and the release is
// carried out when the move is over. The connection breaks before any answer came. On the next one the client asks for all again, in
// the old order: the acquire is new, and takes the lock; the cancel finds no wait; the release is done before. PROTOCOL.md, section 3:
// "one whose wait was ended by a kill, a cancel, a policy or its time is answered so again".
func TestAdv12CancelledWhileHeldBack(t *testing.T) {
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
	c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window, First: r.next.Add(1)}
	a = c.start(take, waiting(write("o", path, time.Hour)))
	r.node.Cancel(c.session, take)
	b = c.start(give, back)
	taken, given := a.get(t, "the wait, asked again"), b.get(t, "the release, asked again")
	if given.Code != wire.OK {
		t.Fatalf("the release is answered %+v", given)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("the wait was answered %v and now %v %v, the release that takes it back OK, and %s is held by %q for an hour",
			first.Code, taken.Code, taken.Status, path, owner)
	}
}
