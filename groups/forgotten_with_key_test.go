package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestForgottenWithKey: what is not kept any more is refused, and never run (0006), with a key as without one. A
// session asks for the end of all that an owner has, is answered, asks more than its window, and then the first again,
// when the time of its key is over. Nobody knows then what became of it: it is FORGOTTEN.
func TestForgottenWithKey(t *testing.T) {
	for name, op := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "force_release": wire.OpForceRelease} {
		for _, key := range []string{"", "k"} {
			t.Run(name+" with key "+key, func(t *testing.T) {
				r := newRig(t, func(c *Config) {
					briefKeys(c)
					brief := c.stated
					c.stated = func(l *replica.Limits) { brief(l); l.MaxWindow = 4 }
				})
				far := ""
				for _, ns := range r.apart("h", 8) { // in another log than where it was noted
					if r.node.logOf(r.node.groupOf(ns)) != r.node.logOf(wire.HomeOf("o", r.node.cfg.GroupCount)) {
						far = ns
					}
				}
				near := ""
				for _, ns := range r.apart("h", 8) {
					if r.node.logOf(r.node.groupOf(ns)) == r.node.logOf(wire.HomeOf("o", r.node.cfg.GroupCount)) {
						near = ns
					}
				}
				c, other := r.session(), r.session()
				c.must(write("o", near+"/x", time.Hour))
				id := r.next.Add(1)
				req := func() *wire.Request { return &wire.Request{Op: op, Owner: "o", Key: key} }
				if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
					t.Fatalf("%+v", res)
				}
				for range 8 {
					c.must(write("p", near+"/p", time.Hour))
				}
				took := other.must(write("o", far+"/x", time.Hour))
				r.clock.hurry(time.Second) // the key is over, the session is not
				r.nextConnection(c)
				res := c.start(id, req()).get(t, "the same id again")
				if owner := other.inspect(far + "/x").Owner; owner != "o" || res.Code != wire.Forgotten {
					t.Errorf("the repeat is answered %v %s; what was taken with token %d after the first was "+
						"answered is held by %q",
						res.Code, res.Message, took.Token, owner)
				}
			})
		}
	}
}
