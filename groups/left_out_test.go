package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLeftOut: a session pipelines an acquire of x and its release, and both are refused with code 14, as their
// group is full. Then it takes x at once, and that lock ends: given back by its token, by release_all or with its time.
// Now the first two are asked again, with their old ids and in their old order: both are answered OK. What the first of
// them took the second one gives back, which came right behind it: all that the session asked after that is over.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	const x = "h:/a/x"
	for name, over := range map[string]func(r *rig, c *caller, token int64){
		"by its token": func(_ *rig, c *caller, token int64) {
			req := release("o", x)
			req.Token = token
			c.must(req)
		},
		"by release_all":       func(_ *rig, c *caller, _ int64) { c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"}) },
		"by release_all, swap": func(_ *rig, c *caller, _ int64) { c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"}) },
		"with time":            nil,
		"killed":               func(r *rig, _ *caller, _ int64) { r.session().must(&wire.Request{Op: wire.OpForceRelease, Owner: "o"}) },
		"not at all":           func(_ *rig, c *caller, token int64) {}, // then it is the later one's
	} {
		gives := func() *wire.Request { return release("o", x) }
		if strings.HasSuffix(name, "swap") { // an acquire of something else that gives x back
			gives = func() *wire.Request {
				req := write("o", "h:/a/y", time.Hour)
				req.Releases = []wire.ReleaseRequest{{Path: x}}
				return req
			}
		}
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c, other := r.session(), r.session()
			first, second, third := r.next.Add(1), r.next.Add(1), r.next.Add(1)
			fullOf(t, r, "h:/a", func() {
				asked := []*outcome{c.start(first, write("o", x, time.Hour)), c.start(second, gives())}
				for _, o := range asked {
					if res := o.get(t, "what is refused"); res.Code != wire.Unavailable {
						t.Fatalf("%+v", res)
					}
				}
			})
			ttl := time.Hour
			if over == nil {
				ttl = time.Second
			}
			took := c.start(third, write("o", x, ttl)).get(t, "the third")
			if took.Code != wire.OK || took.Status != wire.StatusOK {
				t.Fatalf("%+v", took)
			}
			if over == nil {
				eventually(t, "its time is over", func() bool { return other.inspect(x).Owner == "" })
			} else {
				over(r, c, took.Token)
			}
			if owner := other.inspect(x).Owner; owner != "" && name != "not at all" {
				t.Fatalf("held by %q", owner)
			}
			again := askAgain(c, first, write("o", x, time.Hour)).get(t, "the acquire, asked again")
			let := askAgain(c, second, gives()).get(t, "the release, asked again")
			owner := other.inspect(x).Owner
			if name == "not at all" {
				if owner != "o" {
					t.Errorf("held by %q", owner)
				}
				return
			}
			if again.Code == wire.OK && let.Code == wire.OK && owner != "" {
				t.Errorf("the acquire is answered %v %v, and the release behind it %v: %q holds x for an hour, and nobody knows",
					again.Code, again.Status, let.Code, owner)
			}
		})
	}
}
