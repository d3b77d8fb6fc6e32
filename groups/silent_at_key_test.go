package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseOfASessionSilentAtItsKey: a session gives two paths back and is answered; it goes on, but asks nothing in
// the log that looks after the key, which forgets it. When the time of the key is over it asks again under the same id.
// The log of the paths remembers that the release was carried out, and what was taken since stays, as without a key.
func TestReleaseOfASessionSilentAtItsKey(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("with key "+key, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				briefKeys(c)
				c.seams.limits = func(l *limits) { l.KeptMillis = 3000; l.RepeatMillis = 1500 }
			})
			far, near := "h:/a", ""
			for _, ns := range r.apart("g", 8) {
				if r.node.logOf(r.node.groupOf(ns)) != r.node.logOf(r.node.groupOf(far)) {
					near = ns
				}
			}
			if key != "" {
				for r.node.logOf(wire.HomeOf(key, r.node.cfg.GroupCount)) != r.node.logOf(r.node.groupOf(near)) {
					key += "x"
				}
			}
			c, other := r.session(), r.session()
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
			for range 10 { // the key is over, the session is not
				r.clock.hurry(400 * time.Millisecond)
				c.must(write("p", far+"/p", time.Hour))
				other.must(write("q", near+"/q", time.Hour))
			}
			other.must(write("o", x, time.Hour))
			r.nextConnection(c)
			res := c.start(id, req()).get(t, "the same id again")
			if owner := other.inspect(x).Owner; owner != "o" {
				t.Errorf("the repeat is answered %v %s; what was taken after the first was answered is held by %q",
					res.Code, res.Message, owner)
			}
		})
	}
}
