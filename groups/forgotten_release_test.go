package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestForgottenReleaseWithKey: TestForgottenWithKey of a release of two paths: what is not kept any more is refused, and
// never run. The release is asked again on a later connection, which the log of its key does not know yet.
func TestForgottenReleaseWithKey(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("with key "+key, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				briefKeys(c)
				brief := c.seams.limits
				c.seams.limits = func(l *limits) { brief(l); l.MaxWindow = 4 }
			})
			near := "h:/a"
			if key != "" {
				for r.node.logOf(wire.HomeOf(key, r.node.cfg.GroupCount)) != r.node.logOf(r.node.groupOf(near)) {
					key += "x"
				}
			}
			c, other := r.session(), r.session()
			far := near
			for _, ns := range r.apart("g", 8) { // in another log than that of the key
				if key != "" && r.node.logOf(r.node.groupOf(ns)) != r.node.logOf(r.node.groupOf(near)) {
					far = ns
				}
			}
			x, y := far+"/x", far+"/y"
			other.must(write("o", x, time.Hour))
			other.must(write("o", y, time.Hour))
			id := r.next.Add(1)
			req := func() *wire.Request {
				return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: x}, {Path: y}}}
			}
			if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			for range 8 {
				c.must(write("p", near+"/p", time.Hour))
			}
			other.must(write("o", x, time.Hour))
			r.clock.hurry(time.Second) // the key is over, the session is not
			r.nextConnection(c)
			res := c.start(id, req()).get(t, "the same id again")
			if owner := other.inspect(x).Owner; owner != "o" || res.Code != wire.Forgotten {
				t.Errorf("the repeat is answered %v %s; what was taken after the first was answered is held by %q",
					res.Code, res.Message, owner)
			}
		})
	}
}
