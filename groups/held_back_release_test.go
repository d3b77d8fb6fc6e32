package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestHeldBackRelease: a client pipelines an acquire of a path whose namespace is being moved and its release, and the
// connection breaks while both are held back. The acquire is dropped, and so is the release behind it: alone it would
// find nothing, and be done before when the client asks both again, while the acquire is new and takes the lock.
func TestHeldBackRelease(t *testing.T) {
	const path = "h:/a/b/x"
	r := newRig(t, nil)
	c, other := r.session(), r.session()
	undo := r.frozen("h:/a/b", "h:/a")
	take, give := r.next.Add(1), r.next.Add(1)
	c.start(take, write("o", path, time.Hour))
	o := c.start(give, release("o", path))
	r.held(2)
	r.node.Closed(c.session, false, false)
	undo()
	r.held(0)
	o.get(t, "the release") // its answer is lost with the connection
	c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
		First: r.next.Add(1)}
	taken := c.start(take, write("o", path, time.Hour)).get(t, "the acquire, asked again")
	given := c.start(give, release("o", path)).get(t, "the release, asked again")
	if given.Code != wire.OK {
		t.Fatalf("the release is answered %+v", given)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("the acquire is answered %v, the release behind it OK, and %s is held by %q for an hour",
			taken.Status, path, owner)
	}
}
