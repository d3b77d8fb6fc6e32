package pathlockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOrderOfWhatIsAskedAgain: an acquire, and a renewal for less behind it, of one owner and namespace, are under way at a
// break, and neither was carried out. The next connection has a smaller window, which has no room for the acquire yet. The
// renewal is not asked again before it: else the acquire would make the lease long again that the program shortened behind it.
func TestOrderOfWhatIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
		var mu sync.Mutex
		var order []string
		deaf := false
		serve := func(p *peer) {
			go p.serve(func(a *asked) *wire.Result {
				mu.Lock()
				defer mu.Unlock()
				if deaf {
					return nil
				}
				if a.req.Owner == "me" && (a.req.Op == wire.OpAcquire || a.req.Op == wire.OpRenew && a.req.TTLMillis == 5000) {
					order = append(order, fmt.Sprintf("%v(%d)", a.req.Op, a.id))
				}
				if a.req.Owner == "sick" {
					time.AfterFunc(5*time.Second, func() { p.ok(a) })
					return nil
				}
				return granted(a.req)
			})
		}
		serve(p)
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Second)
		mu.Lock()
		deaf, order = true, nil
		mu.Unlock()
		for i := range 40 {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: fmt.Sprintf("a:/s/%d", i)}}}, nil)
		}
		c.Go(&wire.Request{Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue, Locks: []wire.LockRequest{{Path: "a:/b/more"}}}, nil)
		c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 5000, Domains: []string{"a:/b"}}, nil)
		pass(time.Second)
		way.cut(errUnreachable)
		pass(100 * time.Millisecond)
		mu.Lock()
		deaf = false
		mu.Unlock()
		way.cut(nil)
		p = f.accept()
		limits := testLimits
		limits.InFlight = 32
		p.welcome(limits)
		serve(p)
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.ToLower(strings.Join(order, " ")); !strings.HasPrefix(got, "acquire") {
			t.Errorf("asked were an acquire, then a renewal; the server got: %s", got)
		}
	})
}
