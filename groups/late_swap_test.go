package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLateSwap: a session pipelines an acquire of y that gives x back (release_requests), and an acquire of x. The
// first is refused with code 14, as its group is full; the second is carried out, and its answer is read. The first is
// asked again under its id: it comes too late to give back what the session took after it.
func TestLateSwap(t *testing.T) {
	t.Parallel()
	const x, y = "h:/a/x", "h:/a/y"
	swap := func() *wire.Request {
		req := write("o", y, time.Hour)
		req.Releases = []wire.ReleaseRequest{{Path: x}}
		return req
	}
	for name, late := range map[string]func() *wire.Request{"release": func() *wire.Request { return release("o", x) }, "acquire with release_requests": swap} {
		for _, anew := range []bool{false, true} {
			for _, held := range []bool{false, true} {
				t.Run(name+map[bool]string{true: ", next connection", false: ", same connection"}[anew]+map[bool]string{true: ", held before", false: ", not held before"}[held], func(t *testing.T) {
					r := newRig(t, fewGroups)
					c, other := r.session(), r.session()
					if held {
						if res := c.start(r.next.Add(1), write("o", x, time.Hour)).get(t, "the acquire of x"); res.Code != wire.OK || res.Status != wire.StatusOK {
							t.Fatalf("%+v", res)
						}
					}
					first, second := r.next.Add(1), r.next.Add(1)
					fullOf(t, r, "h:/a", func() {
						if res := c.start(first, late()).get(t, "the first"); res.Code != wire.Unavailable {
							t.Fatalf("%+v", res)
						}
					})
					if res := c.start(second, write("o", x, time.Hour)).get(t, "the second"); res.Code != wire.OK || res.Status != wire.StatusOK {
						t.Fatalf("%+v", res)
					}
					var again wire.Result
					if anew {
						r.node.Closed(c.session, false, false)
						c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window, First: r.next.Add(1)}
						again = c.start(first, late()).get(t, "the first, asked again")
					} else {
						again = askAgain(c, first, late()).get(t, "the first, asked again")
					}
					if owner := other.inspect(x).Owner; owner != "o" {
						t.Errorf("the session was told that it has x, by a request behind the first; that is answered %v %v now, and x is held by %q", again.Code, again.Status, owner)
					}
				})
			}
		}
	}
}
