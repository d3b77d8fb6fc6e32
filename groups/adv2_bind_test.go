package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2BindMeetsAcquire: a bind ties what an acquire that was sent before it takes, also when
// that comes later.
func TestAdv2BindMeetsAcquire(t *testing.T) {
	r := newRig(t, nil)
	const rounds = 100
	left := 0
	for i := range rounds {
		c := r.session()
		owner, path := fmt.Sprint("o", i), fmt.Sprintf("h:/a%d/x", i)
		took := c.start(r.next.Add(1), write(owner, path, time.Hour))
		bound := c.start(r.next.Add(1), &wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: 100, Flags: wire.FlagBind})
		if res := took.get(t, "acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
		if res := bound.get(t, "bind"); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		r.node.Closed(c.session, true, false)
	}
	time.Sleep(3 * time.Second)
	for i := range rounds {
		if r.session().inspect(fmt.Sprintf("h:/a%d/x", i)).Owner != "" {
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d of %d owners hold their path 3 s after the connections closed that they are bound to (the grace is 0.1 s)", left, rounds)
	}
}
