package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2KeyedReleasesMove: an acquire with a key that has release_requests alone is not carried
// out again when its path has come to another group.
func TestAdv2KeyedReleasesMove(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(write("o", "h:/a/b/x", time.Hour))
	lets := &wire.Request{
		Op: wire.OpAcquire, Owner: "o", TTLMillis: 3_600_000, Key: "k", Releases: []wire.ReleaseRequest{{Path: "h:/a/b/x"}},
	}
	again := *lets
	c.must(lets)
	c.must(write("o", "h:/a/b/x", time.Hour)) // the repeat before a move does nothing
	c.must(&again)
	if owner := c.inspect("h:/a/b/x").Owner; owner != "o" {
		t.Fatalf("held by %q", owner)
	}
	c.must(release("o", "h:/a/b/x"))
	c.must(setPolicy("h:/a/b", wire.RecursiveRW))
	if r.node.groupOf("h:/a/b") == r.node.groupOf("h:/a") {
		t.Fatal("it stays in its group: choose another path")
	}
	c.must(write("o", "h:/a/b/x", time.Hour))
	again = *lets
	res := c.ask(&again)
	if owner := c.inspect("h:/a/b/x").Owner; owner != "o" {
		t.Errorf("the repeat of a keyed request (%+v) gave back a lock that was taken since", res)
	}
}
