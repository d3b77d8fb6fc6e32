package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPollOfAnotherLock: the same for a poll whose answer QUEUED was not heard.
func TestPollOfAnotherLock(t *testing.T) {
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	first, second, rival, holder := r.session(), r.session(), r.session(), r.session()
	holder.must(write("holder", x, time.Hour))
	ask := func() *wire.Request { return write("o", x, time.Hour) }
	id := r.next.Add(1)
	sent := time.Now()
	if res := first.start(id, ask()).get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res) // which its client does not hear
	}
	holder.must(release("holder", x))
	second.must(release("o", x))
	second.must(write("o", x, 2*time.Second))
	notBoth(t, r, first, rival, id, ask, x, sent)
}
