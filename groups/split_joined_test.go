package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSplitAndJoined: in one write a client sends an acquire of a path of h:/a and a release of that and another one of
// h:/a. A policy makes the path's part a namespace of its own, while they are on their way; both are sent on, and
// before the acquire is carried out that policy is deleted again. They were about one namespace when they were sent,
// and are about one namespace when they are answered: nothing is held after that.
func TestSplitAndJoined(t *testing.T) {
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
			take := c.start(r.next.Add(1), write("o", moves, time.Hour))
			give := &wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: moves}}}
			if stays != "" {
				give.Releases = append(give.Releases, wire.ReleaseRequest{Path: stays})
			}
			o := c.start(r.next.Add(1), give)
			other.must(setPolicy(nested, wire.RecursiveRW))
			passesB()
			f.until("both are sent on", func() bool {
				lA.mu.Lock()
				defer lA.mu.Unlock()
				return len(lA.mu.queue) == 2
			})
			time.Sleep(pause)
			other.must(deletePolicy(nested))
			passesA()
			if res := take.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("the acquire is answered %+v", res)
			}
			if res := o.get(t, "the release"); res.Code != wire.OK {
				t.Fatalf("the release is answered %+v", res)
			}
			if owner := other.inspect(moves).Owner; owner != "" {
				t.Errorf("the release behind the acquire is answered OK, and %s is held by %q for an hour",
					moves, owner)
			}
		})
	}
}
