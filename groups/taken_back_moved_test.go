package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenBackBeforeItMoved: a client pipelines an acquire that is not to be queued, and its release. The acquire is
// refused with code 14, as its group is full, and asked again once the release was answered OK; meanwhile its path
// comes to another namespace, in another log, which its node does not know yet. The log that carried the release out is
// the only one to know of it: it says that the acquire takes nothing, and does not have it sent on to where it would be
// new. (The simulation, seed 500036: the lock stayed for its TTL, an hour.)
func TestTakenBackBeforeItMoved(t *testing.T) {
	f := apart(t, func(i int, c *Config) {
		if i == 1 {
			c.MaxInflight = 3
		}
	})
	r := f.rigOn(1)
	c, other := r.session(), f.rigOn(0).session()
	l := f.nodes[0].logOf(r.node.groupOf("h:/a"))
	nested := nestedBelow(r.node, "h:/a", r.node.logOf(r.node.groupOf("h:/a")))
	path := nested + "/x"
	c.must(write("o", "h:/a/y", time.Hour)) // so that there is a way to the leader
	c.must(release("o", "h:/a/y"))
	take, give := r.next.Add(1), r.next.Add(1)
	acquire := write("o", path, time.Hour)
	acquire.Flags = wire.FlagNoQueue
	l.pauses(true)
	filler := r.session()
	var open []*outcome
	for range 3 {
		open = append(open, filler.start(r.next.Add(1), release("filler", "h:/a/filler")))
	}
	if res := c.start(take, acquire).get(t, "the acquire"); res.Code != wire.Unavailable {
		t.Fatalf("%+v", res)
	}
	l.pauses(false)
	for _, o := range open {
		o.get(t, "a filler")
	}
	if res := c.start(give, release("o", path)).get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	other.must(setPolicy(nested, wire.RecursiveRW))
	if got := r.node.routes.Load().Resolve(path); got == nested {
		t.Fatal("the node knows already where the path is")
	}
	taken := askAgain(c, take, acquire).get(t, "the acquire, asked again")
	if owner := other.inspect(path).Owner; taken.Code != wire.Cancelled || owner != "" {
		t.Errorf("the acquire is answered %v %v behind the release that was answered OK, and %s is held by %q "+
			"for an hour", taken.Code, taken.Status, path, owner)
	}
}
