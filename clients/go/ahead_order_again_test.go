package pathlockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOrderOfANewRenewalBehindOneAskedAgain: a renewal of the program's is under way at a break. The next connection has a
// smaller window, whose users' part is full of what is asked again before it, so it waits. The program asks for another
// renewal of the same owner and namespace: that waits behind the one that was asked first.
func TestOrderOfANewRenewalBehindOneAskedAgain(t *testing.T) {
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
				if a.req.Owner == "me" && a.req.Op == wire.OpRenew && a.req.Flags == 0 {
					order = append(order, fmt.Sprint(a.req.TTLMillis))
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
		deaf = true
		mu.Unlock()
		for i := range 40 {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: fmt.Sprintf("a:/s/%d", i)}}}, nil)
		}
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
		pass(100 * time.Millisecond)
		c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 600_000, Domains: []string{"a:/b"}}, nil)
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, " "); got != "5000 600000" {
			t.Errorf("asked were renewals for 5000 and for 600000 ms, in this order; the server got: %s", got)
		}
	})
}
