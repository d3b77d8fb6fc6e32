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
	first.session = &wire.Session{ID: first.session.ID, Epoch: 2, Window: first.session.Window, First: r.next.Add(1)}
	res := first.start(id, ask()).get(t, "the acquire, asked again")
	if res.Code != wire.OK || res.Status == wire.StatusLost {
		return
	}
	var got wire.Result
	eventually(t, "the rival gets it, or not", func() bool {
		req := write("rival", x, time.Hour)
		req.Flags |= wire.FlagNoQueue
		got = rival.ask(req)
		return got.Code == wire.OK && got.Status == wire.StatusOK || time.Since(sent) > 6*time.Second
	})
	if got.Status == wire.StatusOK {
		t.Errorf("both believe in %s: the acquire was told OK for an hour, token %d, and is %v old; the rival has token %d",
			x, res.Token, time.Since(sent).Round(time.Second), got.Token)
	}
}
