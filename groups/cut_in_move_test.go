package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCutWhileItMeetsAMove: in one write a client sends an acquire and its release; its node does not know yet that the
// path has come to another namespace. They are on their way to the log's leader when the connection breaks; then both
// are refused as they met the move. The acquire is not sent on any more, as its connection ended; and so is the release
// behind it: else it would be done before when the client asks both again, while the acquire is new.
func TestCutWhileItMeetsAMove(t *testing.T) {
	for name, waits := range map[string]bool{"acquire": false, "waiting acquire": true} {
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
			other.must(setPolicy(nested, wire.RecursiveRW))
			lB.pauses(true)
			take, give := r.next.Add(1), r.next.Add(1)
			acquire := func() *wire.Request {
				if waits {
					return waiting(write("o", path, time.Hour))
				}
				return write("o", path, time.Hour)
			}
			a := c.start(take, acquire())
			o := c.start(give, release("o", path))
			f.until("they are at the leader", func() bool {
				lB.mu.Lock()
				defer lB.mu.Unlock()
				return len(lB.mu.queue) == 2
			})
			r.node.Closed(c.session, false, false)
			lB.pauses(false)
			a.get(t, "the acquire") // their answers are lost with the connection
			o.get(t, "the release")
			c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
				First: r.next.Add(1)}
			taken := c.start(take, acquire()).get(t, "the acquire, asked again")
			given := c.start(give, release("o", path)).get(t, "the release, asked again")
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
