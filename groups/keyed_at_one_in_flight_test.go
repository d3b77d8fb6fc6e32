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

// TestTwoOfAGroupAtOneInFlight: with one place, a release of paths in two namespaces of one group is carried out, one after the other.
func TestTwoOfAGroupAtOneInFlight(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxInflight, c.GroupCount, c.LogCount = 1, 1, 1 })
			c := r.session()
			a, b := "h:/a/x", "h:/b/x"
			c.must(write("o", a, time.Hour))
			c.must(write("o", b, time.Hour))
			req := &wire.Request{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: a}, {Path: b}}}
			if res := c.start(r.next.Add(1), req).get(t, "the release"); res.Code != wire.OK {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
			if one, other := c.inspect(a).Owner, c.inspect(b).Owner; one != "" || other != "" {
				t.Errorf("held by %q and %q", one, other)
			}
		})
	}
}

// TestEndOfAClaimTakesNoPlace: as all parts of a request with a key are carried out, the group of the key has no place left. The
// request is answered OK: it was let in, and were its end refused, its key would be forgotten before its time.
func TestEndOfAClaimTakesNoPlace(t *testing.T) {
	for name, op := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "release": wire.OpRelease} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxInflight = 1 })
			n := r.node
			ns := r.apart("h", 8)
			lA := n.logOf(n.groupOf(ns[0]))
			i := 1
			for n.logOf(n.groupOf(ns[i])) == lA {
				i++
			}
			lB := n.logOf(n.groupOf(ns[i]))
			key := "k"
			for n.logOf(wire.HomeOf(key, n.cfg.GroupCount)) != lA {
				key += "k"
			}
			here, there := ns[0]+"/x", ns[i]+"/x"
			c := r.session()
			c.must(write("o", here, time.Hour))
			c.must(write("o", there, time.Hour))
			req := &wire.Request{Op: op, Owner: "o", Key: key}
			if op == wire.OpRelease {
				req.Releases = []wire.ReleaseRequest{{Path: here}, {Path: there}}
			}
			lB.pauses(true)
			first := c.start(r.next.Add(1), req)
			eventually(t, "its part is queued", func() bool {
				lB.mu.Lock()
				defer lB.mu.Unlock()
				return len(lB.mu.queue) > 0
			})
			eventually(t, "the part before it is carried out", func() bool { return c.inspect(here).Owner == "" })
			count := &n.inflight[n.slot(wire.HomeOf(key, n.cfg.GroupCount))]
			eventually(t, "its group has a place", func() bool { return count.Load() == 0 })
			count.Add(1)
			lB.pauses(false)
			res := first.get(t, name)
			count.Add(-1)
			if res.Code != wire.OK {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
		})
	}
}
