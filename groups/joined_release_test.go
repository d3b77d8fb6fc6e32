package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseJoinedByAMove: the other way round. A client asks for a lock in h:/a/b, which is a namespace of its own;
// what it asks is not at its log yet. The policy of h:/a/b is deleted, which the client's node knows. Then the client
// gives back that path and another one of h:/a, one namespace by now: it is carried out behind the acquire, as a
// release of the one path is.
func TestReleaseJoinedByAMove(t *testing.T) {
	const stays, moves = "h:/a/y", "h:/a/b/x"
	for name, paths := range map[string][]string{"one path": {moves}, "two paths": {stays, moves}} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r := f.rigOn(1)
			c, other := r.session(), f.rigOn(0).session()
			n := r.node
			other.must(setPolicy("h:/a/b", wire.RecursiveRW))
			knows := func(ns string) func() bool {
				return func() bool { return n.routes.Load().Resolve(moves) == ns }
			}
			third := r.session()
			third.inspect(moves)
			f.until("the node knows of the namespace", knows("h:/a/b"))
			c.must(write("o", stays, time.Hour))
			l := n.logOf(n.groupOf("h:/a/b"))
			passes := l.holdsAway()
			take := c.start(r.next.Add(1), write("o", moves, time.Hour))
			other.must(deletePolicy("h:/a/b"))
			third.inspect(moves)
			f.until("the node knows that it is none", knows("h:/a"))
			give := &wire.Request{Op: wire.OpRelease, Owner: "o"}
			for _, path := range paths {
				give.Releases = append(give.Releases, wire.ReleaseRequest{Path: path})
			}
			o := c.start(r.next.Add(1), give)
			passes()
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
