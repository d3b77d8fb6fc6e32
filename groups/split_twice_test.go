package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// queuedAre waits until so many parts are kept in a log's queue.
func queuedAre(f *localCluster, l *shardLog, many int) {
	f.t.Helper()
	f.until("they are in the queue of the log", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) == many
	})
}

// learnsLater has a node wait for the answer of the system log's leader, of which routes are next, until it is called
// what is answered.
func (n *Node) learnsLater() (learns func()) {
	set := func(learning bool) {
		n.moves.mu.Lock()
		n.moves.learning = learning
		n.moves.mu.Unlock()
		n.moves.rouse()
	}
	set(true)
	return func() { set(false) }
}

// TestSplitTwice: in one write a client sends an acquire of a path of h:/a and a release of that and another one of
// h:/a. A policy makes the path's part a namespace of its own, and before the acquire is carried out there another
// policy makes a part of that one. The release is carried out behind the acquire all the same. Another client has a
// request in that namespace as well.
func TestSplitTwice(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	r := f.rigOn(1)
	c, first, other := r.session(), r.session(), f.rigOn(0).session()
	n := r.node
	lB := n.logOf(n.groupOf("h:/a"))
	nested := nestedBelow(n, "h:/a", lB)
	lA := n.logOf(n.groupOf(nested))
	deeper := nestedBelow(n, nested, lA, lB)
	moves, stays := deeper+"/x", "h:/a/y"
	passesA, passesB := lA.holdsAway(), lB.holdsAway()
	take := c.start(r.next.Add(1), write("o", moves, time.Hour))
	give := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRelease, Owner: "o",
		Releases: []wire.ReleaseRequest{{Path: moves}, {Path: stays}}})
	other.must(setPolicy(nested, wire.RecursiveRW))
	r.session().inspect(moves)
	f.until("the node knows the routes", func() bool { return n.routes.Load().Resolve(moves) == nested })
	first.start(r.next.Add(1), write("p", deeper+"/z", time.Hour))
	passesB()
	queuedAre(f, lA, 3)
	time.Sleep(pause) // the other part of the release is carried out
	other.must(setPolicy(deeper, wire.RecursiveRW))
	learns := n.learnsLater()
	passesA()
	f.until("all are held back", func() bool {
		n.moves.mu.Lock()
		defer n.moves.mu.Unlock()
		return n.moves.count.Load() == 2 && len(n.moves.awaits) == 1
	})
	// Who looks after what is held back is slow with another connection's, which comes first.
	slow := lineOf(first.session)
	slow.mu.Lock()
	r.session().must(&wire.Request{Op: wire.OpIsOwnerAlive, Owner: "q"}) // which learns the routes as well
	time.Sleep(time.Second)
	slow.mu.Unlock()
	learns()
	// The release may have come first: then the acquire takes nothing.
	if res := take.get(t, "the acquire"); res.Code != wire.Cancelled &&
		(res.Code != wire.OK || res.Status != wire.StatusOK) {
		t.Fatalf("the acquire is answered %+v", res)
	}
	if res := give.get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("the release is answered %+v", res)
	}
	if owner := other.inspect(moves).Owner; owner != "" {
		t.Errorf("the release behind the acquire is answered OK, and %s is held by %q for an hour", moves, owner)
	}
}
