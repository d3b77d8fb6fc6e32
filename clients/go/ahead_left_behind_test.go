package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalBehindWhatItLetGo: a renewal yields to a request of users that waited longer, and that one is sent. Then
// there is room for the renewal, too: it is sent, and does not wait for somebody to be answered.
func TestRenewalBehindWhatItLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
		var slow atomic.Bool
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Owner == "sick" {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
				return nil
			}
			d := time.Millisecond
			if slow.Load() {
				d = 100 * time.Millisecond
			}
			time.AfterFunc(d, func() { p.ok(a) })
			return nil
		})
		l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(2 * time.Second)
		w := int(testLimits.InFlight)
		users := w - w/reserve
		asksSick(c, users-1)
		renews := func(answered func(*wire.Result, error)) {
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 1_800_000, Domains: []string{"a:/well"}},
				answered)
		}
		for range w + 10 { // for so long nobody of users' is let go first
			_, err := c.Renew(t.Context(), "me", 30*time.Minute, "", 0, "a:/well")
			must(t, err)
		}
		slow.Store(true)
		renews(nil)
		pass(10 * time.Millisecond)
		asksSick(c, 1)
		var took time.Duration
		began := time.Now()
		renews(func(*wire.Result, error) { took = time.Since(began) })
		pass(time.Minute)
		if took == 0 || took > time.Second {
			t.Errorf("a renewal of the log where all is well: answered after %v", took)
		}
	})
}
