package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedReleaseThroughAnother: a keyed release of several paths through a node that does not know the latest routes
// yet gives back what its owner took with these, through another node.
func TestKeyedReleaseThroughAnother(t *testing.T) {
	f := newLocalCluster(t, 2, func(_ int, c *Config) { c.StabilityWindow, c.ReplicationFactor = time.Hour, 1 })
	one, two := f.rigOn(0), f.rigOn(1)
	f.until("the second node is ready", func() bool { return two.node.health().Flag })
	a, b := one.session(), two.session()
	const here, there = "h:/a/x", "h:/a/b/y"
	for i := range 20 {
		a.must(deletePolicy("h:/a/b"))
		b.must(write("o", "h:/c/z", time.Hour)) // it knows that
		a.must(setPolicy("h:/a/b", wire.RecursiveRW))
		a.must(write("o", here, time.Hour))
		a.must(write("o", there, time.Hour))
		b.must(&wire.Request{
			Op: wire.OpRelease, Owner: "o", Key: fmt.Sprint("k", i), Releases: []wire.ReleaseRequest{{Path: here},
				{Path: there}},
		})
		for _, path := range []string{here, there} {
			if owner := a.inspect(path).Owner; owner != "" {
				t.Fatalf("round %d: %s is given back, OK, and held by %q", i, path, owner)
			}
		}
	}
}
