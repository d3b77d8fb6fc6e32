package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAnotherNamespace: an acquire whose namespace is being moved is held back by its node. Meanwhile the same owner
// gives back locks in another namespace, that lives in the same log. Nothing orders them, nobody cancels the acquire,
// nothing is repeated: it is carried out when the move is over.
func TestAnotherNamespace(t *testing.T) {
	for _, paths := range []int{replica.MaxSessionMarks, replica.MaxSessionMarks + 1} {
		t.Run(fmt.Sprint(paths, " paths"), func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.LogCount = 1 })
			c := r.session()
			take, give := write("o", "g:/z/p0", time.Hour), release("o", "g:/z/p0")
			for i := 1; i < paths; i++ {
				p := fmt.Sprint("g:/z/p", i)
				take.Locks, give.Releases = append(take.Locks, wire.LockRequest{Path: p}),
					append(give.Releases, wire.ReleaseRequest{Path: p})
			}
			c.must(take)
			undo := r.frozen("h:/a/b", "h:/a")
			o := c.start(r.next.Add(1), write("o", "h:/a/b/x", time.Hour))
			r.held(1)
			c.must(give)
			undo()
			if res := o.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Errorf("the acquire in a namespace of its own, sent once, is answered %+v", res)
			}
		})
	}
}
