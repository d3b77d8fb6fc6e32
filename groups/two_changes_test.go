package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// nestedBelow is a namespace below h:/a whose log is none of the given ones.
func nestedBelow(n *Node, above string, not ...*shardLog) string {
	for i := 0; ; i++ {
		ns := fmt.Sprint(above, "/b", i)
		ok := true
		for _, l := range not {
			ok = ok && n.logOf(n.groupOf(ns)) != l
		}
		if ok {
			return ns
		}
	}
}

// TestTwoChangesOnTheWay: a client asks for a lock in h:/a/b, a namespace of its own, and it is not at its log yet. The
// policy of h:/a/b is deleted, and the client, whose node knows, asks for another lock in h:/a, which is not at its log
// either. Then a policy changes that has nothing to do with any of it, and the client gives the first lock back: the
// release is carried out behind the acquire, as it is without the last change.
func TestTwoChangesOnTheWay(t *testing.T) {
	t.Parallel()
	for _, unrelated := range []bool{false, true} {
		t.Run(fmt.Sprint("unrelated change ", unrelated), func(t *testing.T) {
			f := apart(t, nil)
			r := f.rigOn(1)
			c, other := r.session(), f.rigOn(0).session()
			n := r.node
			lB := n.logOf(n.groupOf("h:/a"))
			nested := nestedBelow(n, "h:/a", lB)
			lA := n.logOf(n.groupOf(nested))
			moves := nested + "/x"
			knows := func(path, ns string) {
				t.Helper()
				r.session().inspect(path)
				f.until("the node knows the routes", func() bool { return n.routes.Load().Resolve(path) == ns })
			}
			other.must(setPolicy(nested, wire.RecursiveRW))
			knows(moves, nested)
			passesA, passesB := lA.holdsAway(), lB.holdsAway()
			take := c.start(r.next.Add(1), write("o", moves, time.Hour))
			other.must(deletePolicy(nested))
			knows(moves, "h:/a")
			second := c.start(r.next.Add(1), write("o", "h:/a/y", time.Hour))
			if unrelated {
				other.must(setPolicy("z:/q/r", wire.RecursiveRW))
				knows("z:/q/r/x", "z:/q/r")
			}
			give := c.start(r.next.Add(1), release("o", moves))
			passesB()
			if res := second.get(t, "the second acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("the second acquire is answered %+v", res)
			}
			time.Sleep(pause)
			passesA()
			if res := take.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("the acquire is answered %+v", res)
			}
			if res := give.get(t, "the release"); res.Code != wire.OK {
				t.Fatalf("the release is answered %+v", res)
			}
			if owner := other.inspect(moves).Owner; owner != "" {
				t.Errorf("the release behind the acquire is answered OK, and %s is held by %q for an hour",
					moves, owner)
			}
		})
	}
}
