package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseBehindAGoneWait: a client sends a waiting acquire of a free path and then, on the same connection, its
// release, and the connection breaks before either is proposed. The acquire is not proposed any more, and so the
// release behind it is not: asked again, in order, both are carried out.
func TestReleaseBehindAGoneWait(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, nil)
	c, other := r.session(), r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	hold := func(until time.Duration) {
		l.drive.Lock()
		l.drive.hold = until
		l.drive.Unlock()
		l.kick()
	}
	hold(l.clock.Mono() + time.Minute) // as while the leadership is handed over
	take, give := r.next.Add(1), r.next.Add(1)
	c.start(take, waiting(write("o", path, time.Hour)))
	o := c.start(give, release("o", path))
	r.node.Closed(c.session, false, false)
	hold(0)
	o.get(t, "the release") // its answer is lost with the connection
	c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
		First: r.next.Add(1)}
	taken := c.start(take, waiting(write("o", path, time.Hour))).get(t, "the acquire, asked again")
	given := c.start(give, release("o", path)).get(t, "the release, asked again")
	if given.Code != wire.OK {
		t.Fatalf("the release is answered %+v", given)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("the acquire is answered %v, the release behind it OK, and %s is held by %q for an hour",
			taken.Status, path, owner)
	}
}
