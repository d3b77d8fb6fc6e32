package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedAtOneInFlight: with max_inflight_per_group = 1, the least that the configuration takes, a request with a key that
// goes to several groups is carried out, is answered so, and is known by its key then.
func TestKeyedAtOneInFlight(t *testing.T) {
	for name, make := range map[string]func(ns []string) *wire.Request{
		"release_all":   func([]string) *wire.Request { return &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k"} },
		"force_release": func([]string) *wire.Request { return &wire.Request{Op: wire.OpForceRelease, Owner: "o", Key: "k"} },
		"release": func(ns []string) *wire.Request {
			return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k", Releases: []wire.ReleaseRequest{{Path: ns[0] + "/x"}, {Path: ns[1] + "/x"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxInflight = 1 })
			ns := r.apart("h", 2)
			c := r.session()
			c.must(write("o", ns[0]+"/x", time.Hour))
			if res := r.session().start(r.next.Add(1), make(ns)).get(t, "the first"); res.Code != wire.OK {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
			c.must(write("o", ns[0]+"/x", time.Hour))
			if res := r.session().start(r.next.Add(1), make(ns)).get(t, "its repeat"); res.Code != wire.OK {
				t.Errorf("asked again it is answered %v %s", res.Code, res.Message)
			}
			if holder := c.inspect(ns[0] + "/x").Owner; holder != "o" {
				t.Errorf("what was taken since is held by %q", holder)
			}
		})
	}
}
