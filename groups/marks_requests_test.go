package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseRequests: a client pipelines an acquire of x, which is refused as its group is full, and what gives x
// back. The connection breaks before it has read an answer. It asks both again, in the old order. The second is done
// already: so the first takes nothing, whether that is a release or an acquire with release_requests.
func TestReleaseRequests(t *testing.T) {
	const path = "h:/a/x"
	for name, swap := range map[string]bool{"release": false, "acquire with release_requests": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c, other := r.session(), r.session()
			first, second := r.next.Add(1), r.next.Add(1)
			next := func() *wire.Request {
				if !swap {
					return release("o", path)
				}
				req := write("o", "h:/a/y", time.Hour)
				req.Releases = []wire.ReleaseRequest{{Path: path}}
				return req
			}
			fullOf(t, r, "h:/a", func() {
				if res := c.start(first, write("o", path, time.Hour)).get(t,
					"the acquire"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
			})
			if res := c.start(second, next()).get(t, name); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			r.node.Closed(c.session, false, false) // no answer was read
			c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
				First: r.next.Add(1)}
			one := c.start(first, write("o", path, time.Hour))
			two := c.start(second, next())
			a, b := one.get(t, "the acquire, asked again"), two.get(t, name+", asked again")
			if b.Code != wire.OK || b.Status != wire.StatusOK {
				t.Fatalf("%+v", b)
			}
			if owner := other.inspect(path).Owner; owner != "" {
				t.Errorf("the acquire is answered %v %v, the %s behind it OK, and %s is held by %q for an hour", a.Code,
					a.Status, name, path, owner)
			}
		})
	}
}
