package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestExpiredOfAGoneConnection: a client sends an acquire and a little later its release, while the log has no leader.
// The connection breaks, and it asks both again, in the old order, on the next one. The time of the first acquire is
// over just before the log has a leader; nobody hears that. The first release is not carried out without it: else it is
// done before the acquire that was asked again.
func TestExpiredOfAGoneConnection(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, late := range map[string]bool{"both in time": false, "the acquire too late": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.RequestTimeout = 4 * time.Second })
			c, other := r.session(), r.session()
			l := r.node.logOf(r.node.groupOf("h:/a"))
			c.must(write("o", "h:/a/y", time.Hour))
			c.must(release("o", "h:/a/y"))
			l.pauses(true)
			take, give := r.next.Add(1), r.next.Add(1)
			a := c.start(take, write("o", path, time.Hour))
			r.clock.hurry(2 * time.Second)
			o := c.start(give, release("o", path))
			before := c.session
			c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window,
				First: r.next.Add(1)}
			r.node.Closed(before, false, false)
			again := c.start(take, write("o", path, time.Hour))
			back := c.start(give, release("o", path))
			if late {
				if res := a.get(t, "the first acquire"); res.Code != wire.Unavailable { // nobody hears it
					t.Fatalf("it is answered %+v", res)
				}
			}
			l.pauses(false)
			o.get(t, "the first release")
			taken, given := again.get(t, "the acquire, asked again"), back.get(t, "the release, asked again")
			if given.Code != wire.OK {
				t.Fatalf("the release is answered %+v", given)
			}
			if owner := other.inspect(path).Owner; owner != "" {
				t.Errorf("the acquire is answered %v %v, the release behind it OK, and %s is held by %q for an hour",
					taken.Code, taken.Status, path, owner)
			}
		})
	}
}
