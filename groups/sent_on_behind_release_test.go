package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSentOnBehindItsRelease: a client pipelines an acquire and its release through a node that hosts no replica. The
// acquire is refused with code 14, as too much of its group is under way; a moment later the release is taken, and is
// carried out. The connection breaks before either answer came. Meanwhile the path has come to a namespace of its own,
// in another log, which the node has not heard of. On the next connection the client asks both again, in their order.
//
// The log where the path was knows the release: it answers that at once, from what it keeps. The acquire it sends on,
// to where the path is now, where nothing is known of the release: that has to come behind it. Else both are answered
// OK, and the path is held for its TTL by a client that gave it back. (So it was in the simulation, seed 2001439.)
func TestSentOnBehindItsRelease(t *testing.T) {
	for name, named := range map[string]bool{"a plain release": false, "a release that names the acquire": true} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r := f.rigOn(1)
			c, other := r.session(), f.rigOn(0).session()
			n := r.node
			lB := f.nodes[0].logOf(n.groupOf("h:/a"))
			nested := nestedBelow(n, "h:/a", n.logOf(n.groupOf("h:/a")))
			path := nested + "/x"
			c.must(write("o", "h:/a/y", time.Hour)) // so that there is a way to the leader
			c.must(release("o", "h:/a/y"))

			take, give := r.next.Add(1), r.next.Add(1)
			back := func() *wire.Request {
				req := release("o", path)
				if named {
					req.Target = take
				}
				return req
			}
			count := &n.inflight[n.slot(n.groupOf("h:/a"))]
			most := int32(n.cfg.MaxInflight)
			count.Add(most) // the group is busy
			first := c.start(take, write("o", path, time.Hour)).get(t, "the acquire")
			count.Add(-most)
			if first.Code != wire.Unavailable {
				t.Fatalf("%+v", first)
			}
			c.start(give, back()).get(t, "the release")
			// Both answers are lost with the connection.
			r.node.Closed(c.session, false, false)
			other.must(setPolicy(nested, wire.RecursiveRW))

			c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
				First: r.next.Add(1)}
			lB.pauses(true)
			a := c.start(take, write("o", path, time.Hour))
			b := c.start(give, back())
			f.until("they are at the leader", func() bool { // as they were written at once
				lB.mu.Lock()
				defer lB.mu.Unlock()
				return len(lB.mu.queue) == 2
			})
			lB.pauses(false)
			taken, given := a.get(t, "the acquire, asked again"), b.get(t, "the release, asked again")
			if given.Code != wire.OK {
				t.Fatalf("the release is answered %+v", given)
			}
			if owner := other.inspect(path).Owner; owner != "" {
				t.Errorf("the acquire is answered %v %v, the release behind it OK, and %s is held by %q for an hour",
					taken.Code, taken.Status, path, owner)
			}
		})
	}
}
