package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv10WholeThenParts: a release of two paths in one namespace is one command; then one of the paths is made a namespace
// of its own, so that the repeat of the release, under the same id, goes in parts, and the part for the path that did not
// move (same namespace, same group, same log, which remembers the request's answer as a whole) is carried out anew: it gives
// away a lock that another client of the owner took since. It is TestPartsThenWhole the other way round, and breaks PROTOCOL.md
// section 3 ("The server carries out what it has not, and answers the rest as it did before"); decision 0027 leaves out
// requests "whose namespace was moved" alone.
func TestAdv10WholeThenParts(t *testing.T) { onBoth(t, testAdv10WholeThenParts) }

func testAdv10WholeThenParts(t *testing.T, r *rig) {
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
		t.Errorf("the repeat (answered %v %q) gives h:/a/x away, which was taken since: it is held by %q", res.Code, res.Message, owner)
	}
}
