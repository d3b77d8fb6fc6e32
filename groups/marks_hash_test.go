package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitWithLessToGiveBack: an owner holds p. It asks for x, giving p back (release_requests), and waits if it has
// to: refused with code 14, as the group is full. Meanwhile another thread of it takes p again (a higher id). The wait
// is asked again and QUEUED. Then the connection breaks, and it is asked again once more: a true repeat, the same bytes
// under the same id.
func TestWaitWithLessToGiveBack(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"nothing taken meanwhile": false, "taken meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c, other := r.session(), r.session()
			c.must(write("o", "h:/a/p", time.Hour))
			other.must(write("b", "h:/a/x", time.Hour))
			id, take := r.next.Add(1), r.next.Add(1)
			ask := func() *wire.Request {
				req := waiting(write("o", "h:/a/x", time.Hour))
				req.Releases = []wire.ReleaseRequest{{Path: "h:/a/p"}}
				return req
			}
			fullOf(t, r, "h:/a", func() {
				if res := c.start(id, ask()).get(t, "the wait"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
			})
			if again {
				if res := c.start(take, write("o", "h:/a/p", time.Hour)).get(t, "the acquire"); res.Code != wire.OK {
					t.Fatalf("%+v", res)
				}
			}
			first := askAgain(c, id, ask())
			<-first.queued
			r.nextConnection(c)
			o := c.start(id, ask())
			select {
			case <-o.queued:
			case res := <-o.done:
				t.Errorf("the true repeat is answered %+v", res)
			}
			other.must(release("b", "h:/a/x"))
			if owner := other.inspect("h:/a/x").Owner; owner == "o" && t.Failed() {
				t.Errorf("and x is held by %q for an hour, and nobody is told", owner)
			}
		})
	}
}
