package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPolledTakenBack: an owner asks for x without flag 1 and is answered QUEUED (1); it is granted in its turn. It
// asks again, as PROTOCOL.md says ("ask again for the same paths and modes ..., answers OK once it was granted"), (2),
// and takes what it asked for back by the ids of all its acquires, which are answered OK. "A path goes only if that
// acquire took or named it, and every other acquire of the owner that did has been taken back in the same way."
func TestPolledTakenBack(t *testing.T) {
	const x = "h:/a/x"
	for name, polled := range map[string]bool{"taken at once": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c, holder, other := r.session(), r.session(), r.session()
			if polled {
				holder.must(write("holder", x, time.Hour))
			}
			one, two := r.next.Add(1), r.next.Add(1)
			res := c.start(one, write("o", x, time.Hour)).get(t, "the first acquire")
			if polled != (res.Status == wire.StatusQueued) {
				t.Fatalf("%+v", res)
			}
			if polled {
				holder.must(release("holder", x))
			}
			if res := c.start(two, write("o", x, time.Hour)).get(t, "the second acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			for _, id := range []uint64{one, two} {
				back := release("o", x)
				back.Target = id
				c.must(back)
			}
			if owner := other.inspect(x).Owner; owner != "" {
				t.Errorf("%s is held by %q for an hour, which has taken all its acquires back", x, owner)
			}
		})
	}
}
