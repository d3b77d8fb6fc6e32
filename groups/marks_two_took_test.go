package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTwoTookOneTakenBack: a release (1) of x is refused with code 14, as the group is full. Then two threads of the
// owner take x (2 and 3, both OK), and the second takes its acquire back by its id (granted_by 3): the lock stays, as
// the first one has it ("a path goes only if every other acquire of the owner that took or named it has been taken
// back"). The release (1) is asked again. It "does not give back what an acquire of a higher id took at once before it
// came": (2) took x.
func TestTwoTookOneTakenBack(t *testing.T) {
	const x, y = "h:/a/x", "h:/a/y"
	swap := func() *wire.Request {
		req := write("o", y, time.Hour)
		req.Releases = []wire.ReleaseRequest{{Path: x}}
		return req
	}
	for name, late := range map[string]func() *wire.Request{
		"release": func() *wire.Request { return release("o", x) }, "acquire with release_requests": swap,
	} {
		for back, takesBack := range map[string]bool{"nothing taken back": false, "the other one taken back": true} {
			t.Run(name+", "+back, func(t *testing.T) {
				r := newRig(t, fewGroups)
				c, other := r.session(), r.session()
				first, one, two := r.next.Add(1), r.next.Add(1), r.next.Add(1)
				fullOf(t, r, "h:/a", func() {
					if res := c.start(first, late()).get(t, name); res.Code != wire.Unavailable {
						t.Fatalf("%+v", res)
					}
				})
				for _, id := range []uint64{one, two} {
					if res := c.start(id, write("o", x, time.Hour)).get(t, "an acquire"); res.Code != wire.OK ||
						res.Status != wire.StatusOK {
						t.Fatalf("%+v", res)
					}
				}
				if takesBack {
					req := release("o", x)
					req.Target = two
					c.must(req)
				}
				if owner := other.inspect(x).Owner; owner != "o" {
					t.Fatalf("before the late one, %s is held by %q", x, owner)
				}
				if res := askAgain(c, first, late()).get(t, name+", asked again"); res.Code != wire.OK ||
					res.Status != wire.StatusOK {
					t.Fatalf("%+v", res)
				}
				if owner := other.inspect(x).Owner; owner != "o" {
					t.Errorf("acquire %d took %s before the late %s came, is not taken back, and %s is held by %q", one,
						x, name, x, owner)
				}
			})
		}
	}
}
