package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWholeThenParts: a release of two paths in one namespace is one command; then one of them is made a namespace of
// its own, so that the repeat goes in parts. The part for the path that stays gives nothing away that was taken since.
func TestWholeThenParts(t *testing.T) { onBoth(t, testWholeThenParts) }

func testWholeThenParts(t *testing.T, r *rig) {
	c, other := r.session(), r.session()
	other.must(write("o", "h:/a/x", time.Hour))
	id, rel := r.next.Add(1), release("o", "h:/a/x")
	rel.Releases = append(rel.Releases, wire.ReleaseRequest{Path: "h:/a/b/y"})
	if res := c.start(id, rel).get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	// Its answer is lost with the connection.
	other.must(setPolicy("h:/a/b", wire.RecursiveRW))
	other.must(write("o", "h:/a/x", time.Hour))
	c.session = later(c.session)
	res := c.start(id, rel).get(t, "the repeat")
	if owner := other.inspect("h:/a/x").Owner; owner != "o" {
		t.Errorf("the repeat (answered %v %q) gives h:/a/x away: it is held by %q", res.Code, res.Message, owner)
	}
}
