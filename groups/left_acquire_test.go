package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnAcquireLeftBehindAReleaseAll: an acquire is under way when its connection breaks, and its repeat is refused
// before it comes to the log. What gives back all of the owner on the next connection gives that back, too: it takes
// nothing afterwards.
func TestAnAcquireLeftBehindAReleaseAll(t *testing.T) {
	for name, req := range map[string]*wire.Request{
		"release_all":           {Op: wire.OpReleaseAll, Owner: "o"},
		"release_all in domain": {Op: wire.OpReleaseAll, Owner: "o", Domains: []string{"h:/a"}},
		"force_release":         {Op: wire.OpForceRelease, Owner: "o"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.MaxInflight = 1 })
			c, other := r.session(), r.session()
			l := r.node.logOf(r.node.groupOf("h:/a"))
			l.pauses(true)
			id := r.next.Add(1)
			take := write("o", "h:/a/x", time.Hour)
			copied := c.start(id, take)
			r.nextConnection(c)
			if res := c.start(id, take).get(t, "its repeat"); res.Code != wire.Unavailable {
				t.Fatalf("%+v", res)
			}
			gives := c.start(r.next.Add(1), req)
			eventually(t, "the log is told of the connection", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.mu.queue) == 2
			})
			l.pauses(false)
			if res := gives.get(t, "what gives all back"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			copied.get(t, "the copy")
			if owner := other.inspect("h:/a/x").Owner; owner != "" {
				t.Errorf("held by %q", owner)
			}
		})
	}
}

// TestFirstReleaseAllBesideAStuckLog: on a later connection of its session a release_all is asked for the first time
// that names a namespace. It is answered though another log takes nothing.
func TestFirstReleaseAllBesideAStuckLog(t *testing.T) {
	h := newHalted(t, time.Second)
	c := h.session()
	c.must(write("o", h.other, time.Hour))
	h.nextConnection(c)
	all := &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{c.namespaceOf(h.other)}}
	if res := c.start(h.next.Add(1), all).get(t, "the release_all"); res.Code != wire.OK {
		t.Errorf("%+v", res)
	}
}
