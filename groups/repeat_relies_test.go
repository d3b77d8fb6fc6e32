package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRepeatedAcquireRelies: acquire (1) of x is carried out, and its client does not hear of it (its connection
// broke). What it took is over by time. Acquire (2) of the same owner, by another session, takes x. The first client
// comes back and asks (1) again: what it took is lost, and it does not rely on what the other one has.
func TestRepeatedAcquireRelies(t *testing.T) {
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	c, second, other := r.session(), r.session(), r.session()
	one := r.next.Add(1)
	ask := func() *wire.Request { return write("o", x, 2*time.Second) }
	if res := c.start(one, ask()).get(t, "the first acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res) // which its client does not hear
	}
	eventually(t, "its time is over", func() bool { return other.inspect(x).Owner == "" })
	two := r.next.Add(1)
	if res := second.start(two, write("o", x, time.Hour)).get(t, "the second acquire"); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	// What is held is the other one's, and may last for less.
	if res := askAgain(c, one, ask()).get(t, "the first acquire, asked again"); res.Code != wire.OK ||
		res.Status != wire.StatusLost {
		t.Errorf("the first acquire, asked again, is answered %+v", res)
	}
	back := release("o", x)
	back.Target = two
	second.must(back)
	if owner := other.inspect(x).Owner; owner != "" {
		t.Errorf("acquire %d is taken back, and %s is held by %q", two, x, owner)
	}
}
