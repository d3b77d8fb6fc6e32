package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRepeatIsOfAnotherLock: two programs use owner "o". The first takes x for an hour, and does not hear of it, as its
// connection breaks. The second gives x back (it ends what it did as that owner), and takes it again for two seconds,
// and is gone. The first one comes back, and asks again: "an acquire whose locks are gone answers LOST" (PROTOCOL.md,
// section 3). What it took is gone; what is held is another lock, which lasts for two seconds. If it is told OK it
// believes in x for an hour from when it asked first, and a rival gets x within that.
func TestRepeatIsOfAnotherLock(t *testing.T) {
	const x = "h:/a/x"
	for name, keyed := range map[string]bool{"by its id": false, "by its key": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			first, second, rival := r.session(), r.session(), r.session()
			ask := func() *wire.Request {
				req := write("o", x, time.Hour)
				if keyed {
					req.Key = "k"
				}
				return req
			}
			id := r.next.Add(1)
			sent := time.Now()
			if res := first.start(id, ask()).get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res) // which its client does not hear
			}
			second.must(release("o", x))
			second.must(write("o", x, 2*time.Second))
			notBoth(t, r, first, rival, id, ask, x, sent)
		})
	}
}

// notBoth asks again for x, by a request whose answer was not heard, on the next connection of its session: when it is
// told OK, no rival is to get x in the six seconds after it was sent, as its owner believes in x for its whole TTL.
func notBoth(
	t *testing.T, r *rig, c, rival *caller, id uint64, ask func() *wire.Request, x string, sent time.Time,
) {
	t.Helper()
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: c.session.Window, First: r.next.Add(1)}
	res := c.start(id, ask()).get(t, "the acquire, asked again")
	if res.Code != wire.OK || res.Status == wire.StatusLost {
		return
	}
	if res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	var got wire.Result
	eventually(t, "the rival gets it, or not", func() bool {
		req := write("rival", x, time.Hour)
		req.Flags |= wire.FlagNoQueue
		got = rival.ask(req)
		return got.Code == wire.OK && got.Status == wire.StatusOK || time.Since(sent) > 6*time.Second
	})
	if got.Status == wire.StatusOK {
		t.Errorf("two believe in %s: the acquire was told OK for its TTL, token %d, and is %v old; the rival "+
			"has token %d",
			x, res.Token, time.Since(sent).Round(time.Second), got.Token)
	}
}
