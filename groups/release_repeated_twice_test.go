package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseRepeatedByBothAcrossAMove: a client repeats an acquire and its release on the connection that it asked
// them on, as it was told of both that nobody knows what became of them. Its node resolves them by the routes from
// before a move of their path and forwards them; the link breaks, and it forwards them again. The acquire, which was
// not carried out before, meets the move, and is carried out on the path where that is now. The release, which the
// client has repeated behind it, comes behind it there, too (PROTOCOL.md, sessions and repeats): else the lock stays
// with an owner who was told that it is given back.
func TestReleaseRepeatedByBothAcrossAMove(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	r := f.rigOn(1)
	c, other := r.session(), f.rigOn(0).session()
	n, leader := r.node, f.nodes[0]
	own, lB := n.logOf(n.groupOf("h:/a")), leader.logOf(n.groupOf("h:/a"))
	nested := nestedBelow(n, "h:/a", n.logOf(n.groupOf("h:/a")))
	path := nested + "/x"
	takes, gives := r.next.Add(1), r.next.Add(1)
	c.start(gives, release("o", path)).get(t, "the release")

	own.drive.Lock() // it forwards nothing
	again := func(c *wire.Call) { c.Again = true }
	took := c.startAs(takes, write("o", path, time.Hour), again)
	gave := c.startAs(gives, release("o", path), again)
	other.must(setPolicy(nested, wire.RecursiveRW))
	lB.pauses(true)
	own.drive.Unlock()
	own.kick()
	f.until("they are at the leader", func() bool {
		lB.mu.Lock()
		defer lB.mu.Unlock()
		return len(lB.mu.queue) == 2
	})
	n.peer(leader.id.HostID).Close(errTardy)
	f.until("they are forwarded again", func() bool {
		own.mu.Lock()
		defer own.mu.Unlock()
		return len(own.mu.queue) == 0 && len(own.mu.forwarded.parts) == 2 && !own.mu.forwarded.gone
	})
	lB.pauses(false)
	if res := took.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("the acquire is answered %+v", res)
	}
	if res := gave.get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("the release is answered %+v", res)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("it was given back, and is held by %q", owner)
	}
}
