package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTwoKeysOfAPlace: two programs of one owner poll for x, each with its key. x is granted to the owner. Both
// ask with their keys again: "a QUEUED since granted answers OK".
func TestTwoKeysOfAPlace(t *testing.T) {
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	a, b, holder := r.session(), r.session(), r.session()
	holder.must(write("holder", x, time.Hour))
	ask := func(key string) *wire.Request {
		req := write("o", x, time.Hour)
		req.Key = key
		return req
	}
	for range 2 {
		for c, key := range map[*caller]string{a: "ka", b: "kb"} {
			if res := c.ask(ask(key)); res.Code != wire.OK || res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
		}
	}
	holder.must(release("holder", x))
	for range 2 {
		if res := a.ask(ask("ka")); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the first one is answered %+v", res)
		}
		if res := b.ask(ask("kb")); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the second one is answered %+v, and %q holds %s", res, r.session().inspect(x).Owner, x)
		}
	}
}
