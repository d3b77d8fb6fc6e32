package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyAfterMove: TestRepeatIsOfAnotherLock, by its key, with a move of the path in between.
func TestKeyAfterMove(t *testing.T) {
	const x = "h:/a/b/x"
	r := newRig(t, fewGroups)
	first, second, rival := r.session(), r.session(), r.session()
	ask := func() *wire.Request {
		req := write("o", x, time.Hour)
		req.Key = "k"
		return req
	}
	id := r.next.Add(1)
	sent := time.Now()
	if res := first.start(id, ask()).get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res) // which its client does not hear
	}
	second.must(release("o", x))
	second.must(setPolicy("h:/a/b", wire.RecursiveRW))
	second.must(write("o", x, 2*time.Second))
	notBoth(t, r, first, rival, id, ask, x, sent)
}
