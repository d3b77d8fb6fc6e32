package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSplitReleaseOfAGoneConnection: in one write a client sends an acquire of a path of h:/a and a release of that, or
// of that and another one of h:/a. A policy makes the path's part a namespace of its own; the two are sent on there,
// and have not left the client's node when the connection breaks. The acquire waits, so it is not sent any more; and so
// is the release behind it: else it would be done before when the client asks both again, while the acquire is new.
func TestSplitReleaseOfAGoneConnection(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]string{"one path": "", "two paths": "h:/a/y"} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r := f.rigOn(1)
			c, other := r.session(), f.rigOn(0).session()
			n := r.node
			lB := n.logOf(n.groupOf("h:/a"))
			nested := nestedBelow(n, "h:/a", lB)
			lA := n.logOf(n.groupOf(nested))
			moves := nested + "/x"
			passesA, passesB := lA.holdsAway(), lB.holdsAway()
			take, give := r.next.Add(1), r.next.Add(1)
			c.start(take, waiting(write("o", moves, time.Hour)))
			rel := func() *wire.Request {
				req := &wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: moves}}}
				if stays != "" {
					req.Releases = append(req.Releases, wire.ReleaseRequest{Path: stays})
				}
				return req
			}
			o := c.start(give, rel())
			other.must(setPolicy(nested, wire.RecursiveRW))
			passesB()
			queuedAre(f, lA, 2)
			time.Sleep(pause) // the other part of the release is carried out
			r.node.Closed(c.session, false, false)
			passesA()
			o.get(t, "the release") // its answer is lost with the connection
			c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
				First: r.next.Add(1)}
			taken := c.start(take, waiting(write("o", moves, time.Hour))).get(t, "the acquire, asked again")
			given := c.start(give, rel()).get(t, "the release, asked again")
			if given.Code != wire.OK {
				t.Fatalf("the release is answered %+v", given)
			}
			if owner := other.inspect(moves).Owner; owner != "" {
				t.Errorf("the acquire is answered %v %v, the release behind it OK, and %s is held by %q for an hour",
					taken.Code, taken.Status, moves, owner)
			}
		})
	}
}
