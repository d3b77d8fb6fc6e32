package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedRelease: a keyed release is carried out, and its answer is lost with the connection. A policy change moves
// the path to another log, its owner takes it again there. Then the release is asked again. "A key makes a repeat safe
// then: the first answer to (operation, key) is kept for 300 s and answered again."
func TestKeyedRelease(t *testing.T) {
	for name, takes := range map[string]bool{"not taken again": false, "taken again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			c := r.session()
			n := r.node
			nested := nestedBelow(n, "h:/a", n.logOf(n.groupOf("h:/a")))
			path := nested + "/x"
			c.must(write("o", path, time.Hour))
			give, take := r.next.Add(1), r.next.Add(1)
			req := func() *wire.Request {
				req := release("o", path)
				req.Key = "k"
				return req
			}
			if res := c.start(give, req()).get(t, "the release"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			r.session().must(setPolicy(nested, wire.RecursiveRW))
			if takes {
				if res := c.start(take, write("o", path, time.Hour)).get(t, "the acquire"); res.Code != wire.OK ||
					res.Status != wire.StatusOK {
					t.Fatalf("%+v", res)
				}
			}
			r.nextConnection(c)
			if res := c.start(give, req()).get(t, "the release, asked again"); res.Code != wire.OK {
				t.Errorf("the same request under the same key and the same id is answered %+v", res)
			}
		})
	}
}
