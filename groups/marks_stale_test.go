package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTookAndGaveBack: an owner sends an acquire of p with a key and the release of it in one write; both are refused
// with code 14, as the group is full. Another thread of it takes p and gives it back meanwhile. Then both are asked
// again, in the old order, and answered OK: nobody believes in the lock.
func TestTookAndGaveBack(t *testing.T) {
	const path = "h:/a/p"
	for name, meanwhile := range map[string]bool{"nothing meanwhile": false, "taken and given back meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c := r.session()
			take, give := r.next.Add(1), r.next.Add(1)
			ask := func() *wire.Request {
				req := write("o", path, time.Hour)
				req.Key = "k"
				return req
			}
			fullOf(t, r, "h:/a", func() {
				if res := c.start(take, ask()).get(t, "the acquire"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
				if res := c.start(give, release("o", path)).get(t, "the release"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
			})
			if meanwhile {
				c.must(write("o", path, time.Hour))
				c.must(release("o", path))
			}
			if res := askAgain(c, take, ask()).get(t, "the acquire, asked again"); res.Code != wire.OK ||
				res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			if res := askAgain(c, give, release("o", path)).get(t, "the release, asked again"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			if owner := c.inspect(path).Owner; owner != "" {
				t.Errorf("all that was taken was given back behind it, each with OK, and %s is held by %q for an hour",
					path, owner)
			}
		})
	}
}

// TestPartTakenBack: an owner holds p. Its release is refused with code 14. Meanwhile another thread takes p and q
// (OK), and gives q alone back, with token and granted_by, as PROTOCOL.md has it. The release is asked again: it does
// not give p back, which an acquire of a higher id took at once before it came.
func TestPartTakenBack(t *testing.T) {
	const p, q = "h:/a/p", "h:/a/q"
	for name, part := range map[string]bool{"nothing given back": false, "the other path given back": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c := r.session()
			c.must(write("o", p, time.Hour))
			give, take := r.next.Add(1), r.next.Add(1)
			fullOf(t, r, "h:/a", func() {
				if res := c.start(give, release("o", p)).get(t, "the release"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
			})
			both := write("o", p, time.Hour)
			both.Locks = append(both.Locks, wire.LockRequest{Path: q})
			res := c.start(take, both).get(t, "the acquire")
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			if part {
				req := release("o", q)
				req.Token, req.Target = res.Token, take
				c.must(req)
			}
			if res := askAgain(c, give, release("o", p)).get(t, "the release, asked again"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			if owner := c.inspect(p).Owner; owner != "o" {
				t.Errorf("who took %s with the higher id believes in it, and it is held by %q", p, owner)
			}
		})
	}
}
