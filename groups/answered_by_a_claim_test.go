package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnsweredByAClaimOutlivesKey: a session asks with a key for what another one has been answered with it, and is
// answered by the claim. That answer is lost with its connection. When the time of the key is over it asks again under
// the same id. It was answered: its id must tell the repeat, as in TestIDOutlivesKey, and nothing that was taken since
// may go.
func TestAnsweredByAClaimOutlivesKey(t *testing.T) {
	for name, make := range map[string]func(ns []string) *wire.Request{
		"release_all": func([]string) *wire.Request {
			return &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k"}
		},
		"release_all and wait edge": func([]string) *wire.Request {
			return &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k", DelWait: true}
		},
		"force_release": func([]string) *wire.Request {
			return &wire.Request{Op: wire.OpForceRelease, Owner: "o", Key: "k"}
		},
		"release": func(ns []string) *wire.Request {
			return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k",
				Releases: []wire.ReleaseRequest{{Path: ns[0] + "/x"}, {Path: ns[1] + "/x"}}}
		},
		"release of two paths of a namespace": func(ns []string) *wire.Request {
			return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k",
				Releases: []wire.ReleaseRequest{{Path: ns[1] + "/y"}, {Path: ns[1] + "/x"}}}
		},
		"control: release of one path": func(ns []string) *wire.Request {
			return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k",
				Releases: []wire.ReleaseRequest{{Path: ns[1] + "/x"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, briefKeys)
			ns := r.apart("h", 2)
			c, other := r.session(), r.session()
			other.must(write("o", ns[0]+"/x", time.Hour))
			other.must(make(ns))
			id := r.next.Add(1)
			if res := c.start(id, make(ns)).get(t, "answered by the key"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			took := other.must(write("o", ns[1]+"/x", time.Hour))
			r.clock.hurry(time.Second) // the key is over, the session is not
			r.nextConnection(c)
			res := c.start(id, make(ns)).get(t, "the same id again")
			if owner := other.inspect(ns[1] + "/x").Owner; owner != "o" {
				t.Errorf("the repeat is answered %v, and took away what was taken with token %d after the request "+
					"was answered: held by %q",
					res.Code, took.Token, owner)
			}
		})
	}
}
