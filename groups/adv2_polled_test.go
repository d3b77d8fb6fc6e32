package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2PolledAndTied: an acquire with flag 8 keeps a polled place, and its connection ends.
// What it is granted after that is tied to a connection that is gone: it must not last for its
// whole TTL.
func TestAdv2PolledAndTied(t *testing.T) {
	r := newRig(t, nil)
	holder, dead := r.session(), r.session()
	holder.must(write("holder", "h:/a/x", time.Hour))
	res := dead.startBound(r.next.Add(1), write("dead", "h:/a/x", time.Hour), 100).get(t, "the acquire")
	if res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	r.node.Closed(dead.session, true, false)
	time.Sleep(2 * time.Second) // the grace is 100 ms
	holder.must(release("holder", "h:/a/x"))
	time.Sleep(3 * time.Second)
	if owner := r.session().inspect("h:/a/x").Owner; owner == "dead" {
		left := r.session().must(&wire.Request{Op: wire.OpListLocks, Owner: "dead"}).List.Infos[0].ExpiresInMillis
		t.Errorf("the lock was to be tied to a connection that is gone since 5 s, with a grace of 0.1 s; it is held for %d ms more", left)
	}
}
