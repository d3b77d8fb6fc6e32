package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedReleaseOverAMoveInItsLog: a release of two paths of a namespace, with a key, is answered. One of the paths becomes a namespace of
// its own, in the same log, which knows the answer (PROTOCOL.md, moves), and its owner takes it by another session. When the time
// of the key is over, the release is asked again under its id.
func TestKeyedReleaseOverAMoveInItsLog(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			r := newRig(t, func(c *Config) { briefKeys(c); c.LogCount = 1 })
			c, other := r.session(), r.session()
			const x, z = "h:/a/b/x", "h:/a/z"
			req := func() *wire.Request {
				return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: x}, {Path: z}}}
			}
			c.must(write("o", x, time.Hour))
			id := r.next.Add(1)
			if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			other.must(setPolicy("h:/a/b", wire.RecursiveRW))
			took := other.must(write("o", x, time.Hour))
			r.clock.hurry(time.Second)
			before := c.session
			c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window, First: r.next.Add(1)}
			r.node.Closed(before, false, true)
			res := c.start(id, req()).get(t, "the same id again")
			if owner := other.inspect(x).Owner; owner != "o" {
				t.Errorf("the repeat is answered %v, and took away what was taken with token %d: held by %q", res.Code, took.Token, owner)
			}
		})
	}
}
