package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedAtOneInFlight: with max_inflight_per_group = 1, the least that the configuration takes, a request with a
// key that goes to several groups is carried out, is answered so, and is known by its key then.
func TestKeyedAtOneInFlight(t *testing.T) {
	for name, make := range map[string]func(ns []string) *wire.Request{
		"release_all": func([]string) *wire.Request {
			return &wire.Request{Op: wire.OpReleaseAll,
				Owner: "o", Key: "k"}
		},
		"force_release": func([]string) *wire.Request {
			return &wire.Request{Op: wire.OpForceRelease,
				Owner: "o", Key: "k"}
		},
		"release": func(ns []string) *wire.Request {
			both := []wire.ReleaseRequest{{Path: ns[0] + "/x"}, {Path: ns[1] + "/x"}}
			return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k", Releases: both}
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

// TestTwoOfAGroupAtOneInFlight: with one place, a release of paths in two namespaces of one group is carried out, one
// after the other.
func TestTwoOfAGroupAtOneInFlight(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxInflight, c.GroupCount, c.LogCount = 1, 1, 1 })
			c := r.session()
			a, b := "h:/a/x", "h:/b/x"
			c.must(write("o", a, time.Hour))
			c.must(write("o", b, time.Hour))
			req := &wire.Request{Op: wire.OpRelease, Owner: "o", Key: key,
				Releases: []wire.ReleaseRequest{{Path: a}, {Path: b}}}
			if res := c.start(r.next.Add(1), req).get(t, "the release"); res.Code != wire.OK {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
			if one, other := c.inspect(a).Owner, c.inspect(b).Owner; one != "" || other != "" {
				t.Errorf("held by %q and %q", one, other)
			}
		})
	}
}

// TestPartsAreLetInWhereTheyComeFrom: parts of a release go to a node that has one place for their group. They were
// let in by the node that was asked: none is refused.
func TestPartsAreLetInWhereTheyComeFrom(t *testing.T) {
	f := apart(t, func(i int, c *Config) {
		c.GroupCount, c.LogCount = 1, 1
		if i == 0 {
			c.MaxInflight = 1
		}
	})
	r := f.rigOn(1)
	c := r.session()
	var paths []wire.ReleaseRequest
	for _, path := range []string{"h:/a/x", "h:/b/x", "h:/c/x"} {
		c.must(write("o", path, time.Hour))
		paths = append(paths, wire.ReleaseRequest{Path: path})
	}
	l := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a"))
	l.pauses(true)
	o := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRelease, Owner: "o", Releases: paths})
	eventually(t, "all its parts are there", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) == len(paths)
	})
	l.pauses(false)
	if res := o.get(t, "the release"); res.Code != wire.OK {
		t.Errorf("answered %v %s", res.Code, res.Message)
	}
}
