package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPollAskedAgainTwice: a poll is asked again twice (its connection broke twice). The lock stands all the time.
func TestPollAskedAgainTwice(t *testing.T) {
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	a, b, holder := r.session(), r.session(), r.session()
	holder.must(write("holder", x, time.Hour))
	one, two := r.next.Add(1), r.next.Add(1)
	if res := a.start(one, write("o", x, time.Hour)).get(t, "the first poll"); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	if res := b.start(two, write("o", x, time.Hour)).get(t, "the second poll"); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	holder.must(release("holder", x))
	for i := range 3 {
		if res := askAgain(a, one, write("o", x, time.Hour)).get(t, "the first poll, again"); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Errorf("repeat %d is answered %+v, and %q holds %s", i+1, res, r.session().inspect(x).Owner, x)
		}
	}
}
