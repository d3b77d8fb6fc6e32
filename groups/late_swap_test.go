package groups

import (
	"fmt"
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
	release := func() *wire.Request { return release("o", x) }
	for name, late := range map[string]func() *wire.Request{"release": release, "acquire with release_requests": swap} {
		for _, anew := range []bool{false, true} {
			for _, held := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, next connection %v, held before %v", name, anew, held), func(t *testing.T) {
					lateSwap(t, late, anew, held)
				})
			}
		}
	}
}

// lateSwap has late give x back, refused first and asked again once the session took x: on its next connection if it is
// anew.
func lateSwap(t *testing.T, late func() *wire.Request, anew, held bool) {
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	c, other := r.session(), r.session()
	takes := func(id uint64) {
		t.Helper()
		if res := c.start(id, write("o", x, time.Hour)).get(t, "the acquire"); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
	}
	if held {
		takes(r.next.Add(1))
	}
	first, second := r.next.Add(1), r.next.Add(1)
	fullOf(t, r, "h:/a", func() {
		if res := c.start(first, late()).get(t, "the first"); res.Code != wire.Unavailable {
			t.Fatalf("%+v", res)
		}
	})
	takes(second)
	ask := askAgain
	if anew {
		before := c.session
		r.node.Closed(before, false, false)
		c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window, First: r.next.Add(1)}
		ask = (*caller).start
	}
	again := ask(c, first, late()).get(t, "the first, asked again")
	if owner := other.inspect(x).Owner; owner != "o" {
		t.Errorf("the session has x by a later request; the first is answered %v %v now, and x is held by %q",
			again.Code, again.Status, owner)
	}
}
