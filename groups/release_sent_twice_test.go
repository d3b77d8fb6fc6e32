package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseSentTwiceAcrossAMove: a client asks once for a release. Its node forwards that, it is carried out, and the
// link breaks before the answer has come back. Meanwhile the path, which is free, comes to a namespace of its own in
// another log, and another client of the owner takes it there. Then the node asks again by the route that it knows.
//
// The log where the path was knows the release, and nobody but a node has repeated it: it is not carried out a second
// time where the path is now, where it would give back what was taken after it (PROTOCOL.md, sessions and repeats: the
// server carries out what it has not; what moves excuse is a repeat of the client).
func TestReleaseSentTwiceAcrossAMove(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	r := f.rigOn(1)
	c, other := r.session(), f.rigOn(0).session()
	n, leader := r.node, f.nodes[0]
	lB := leader.logOf(n.groupOf("h:/a"))
	nested := nestedBelow(n, "h:/a", n.logOf(n.groupOf("h:/a")))
	path := nested + "/x"
	c.must(write("o", path, time.Hour))

	lB.pauses(true)
	give := c.start(r.next.Add(1), release("o", path))
	var in *inbound
	f.until("it is at the leader", func() bool {
		lB.mu.Lock()
		defer lB.mu.Unlock()
		if len(lB.mu.queue) == 1 {
			in = lB.mu.queue[0].from
		}
		return in != nil
	})
	in.closed.Store(true) // nothing that it is answered goes back
	lB.pauses(false)
	f.until("it is carried out", func() bool { return other.inspect(path).Owner == "" })
	other.must(setPolicy(nested, wire.RecursiveRW))
	other.must(write("o", path, time.Hour))

	n.peer(leader.id.HostID).Close(errTardy)
	if res := give.get(t, "the release"); res.Code != wire.OK {
		t.Errorf("the release is answered %+v", res)
	}
	if owner := other.inspect(path).Owner; owner != "o" {
		t.Errorf("it was taken after the release had been carried out, and is held by %q", owner)
	}
}
