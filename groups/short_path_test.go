package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestShortPathWhileItsPolicyIsDeleted: a handler's root path is given up as a namespace. The routes have decided that,
// and one of the logs that are to hear of it carries nothing out, as one without a leader. From then on a new lock of
// the path is to be refused (contract.md section 3): it would be about all of the handler, whose paths are in other
// namespaces by now.
func TestShortPathWhileItsPolicyIsDeleted(t *testing.T) {
	r := newRig(t, nil)
	n, c := r.node, r.session()
	alice, bob := r.session(), r.session()
	c.must(setPolicy("h:/", wire.RecursiveRW))
	root := n.logOf(n.groupOf("h:/"))
	var stuck *shardLog
	for _, l := range n.ordered() {
		if l.shard != rows.SystemLog && l != root {
			stuck = l
		}
	}
	below := firstName("h:/a%d", func(ns string) bool { return n.logOf(n.groupOf(ns)) == root }) + "/x"
	n.topology.mu.Lock() // where the routes are made known
	del := c.start(r.next.Add(1), deletePolicy("h:/"))
	eventually(t, "it is decided", func() bool { return !n.routes.Load().Has("h:/") })
	stuck.drive.Lock()
	n.topology.mu.Unlock()

	a := write("alice", "h:/", time.Hour)
	a.Flags = wire.FlagNoQueue
	resA := alice.ask(a)
	b := write("bob", below, time.Hour)
	b.Flags = wire.FlagNoQueue
	resB := bob.ask(b)
	stuck.drive.Unlock()
	stuck.kick()
	end := del.get(t, "the change")
	say := func(res wire.Result) string {
		return fmt.Sprint(res.Code, " ", res.Status, " token ", res.Token, " in ", res.Namespace)
	}
	if resA.Code != wire.InvalidArgument {
		t.Errorf("alice writes h:/ (%s), bob writes %s below (%s); the change was answered %v; held after it: h:/ by %q", say(resA), below, say(resB),
			end.Code, c.inspect("h:/").Owner)
	}
	a.Owner = "carol"
	a.Locks = append([]wire.LockRequest(nil), wire.LockRequest{Path: "h:/"})
	if res := c.ask(a); res.Code != wire.InvalidArgument {
		t.Errorf("after it: %+v", res)
	}
}
