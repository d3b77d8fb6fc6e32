package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalOfAJoinedNamespace: in one write a client sends an acquire in h:/a/b, a namespace of its own, and a
// renewal with that namespace as its only domain. Both meet a change that deletes the policy of h:/a/b. The renewal is
// carried out behind the acquire: it does not find that there is no lease, as long as the acquire is on its way.
func TestRenewalOfAJoinedNamespace(t *testing.T) {
	f := apart(t, nil)
	r := f.rigOn(1)
	c, other := r.session(), f.rigOn(0).session()
	n := r.node
	lB := n.logOf(n.groupOf("h:/a"))
	nested := nestedBelow(n, "h:/a", lB)
	lA := n.logOf(n.groupOf(nested))
	path := nested + "/x"
	other.must(setPolicy(nested, wire.RecursiveRW))
	r.session().inspect(path)
	f.until("the node knows the routes", func() bool { return n.routes.Load().Resolve(path) == nested })
	passesA, passesB := lA.holdsAway(), lB.holdsAway()
	take := c.start(r.next.Add(1), write("o", path, time.Hour))
	renew := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000,
		Domains: []string{nested}})
	other.must(deletePolicy(nested))
	passesA()
	f.until("the acquire is sent on", func() bool {
		lB.mu.Lock()
		defer lB.mu.Unlock()
		return len(lB.mu.queue) > 0
	})
	time.Sleep(pause)
	passesB()
	if res := take.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("the acquire is answered %+v", res)
	}
	res := renew.get(t, "the renewal")
	if owner := other.inspect(path).Owner; res.Code == wire.OK && res.Status != wire.StatusOK && owner == "o" {
		t.Errorf("the acquire is answered OK, %s is held by %q for an hour, and the renewal behind it is answered "+
			"LOST (%v %q)", path, owner, res.Reason, res.Path)
	}
}
