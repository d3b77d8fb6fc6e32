package pathlockd

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// orderAgain is in which order the server gets what a program asks in the name of "me", by TTL, when none of what it
// asks before was carried out as the connection breaks, behind 40 requests to a slow log, and the next one has a
// smaller window, which those fill. What it asks after is asked then.
func orderAgain(t *testing.T, before, after []*wire.Request) (ttls []uint64) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
		var mu sync.Mutex
		deaf := false
		serve := func(p *peer) {
			go p.serve(func(a *asked) *wire.Result {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case deaf:
					return nil
				case a.req.Owner == "me" && a.req.TTLMillis > 0 && a.req.TTLMillis < 3_600_000:
					ttls = append(ttls, a.req.TTLMillis)
				case a.req.Owner == "sick":
					time.AfterFunc(5*time.Second, func() { p.ok(a) })
					return nil
				}
				return granted(a.req)
			})
		}
		hears := func(so bool) {
			mu.Lock()
			defer mu.Unlock()
			deaf = !so
		}
		serve(p)
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Second)
		hears(false)
		for i := range 40 {
			path := fmt.Sprintf("a:/s/%d", i)
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: path}}}, nil)
		}
		for _, req := range before {
			c.Go(req, nil)
		}
		pass(time.Second)
		way.cut(errUnreachable)
		pass(100 * time.Millisecond)
		hears(true)
		way.cut(nil)
		p = f.accept()
		limits := testLimits
		limits.InFlight = 32
		p.welcome(limits)
		serve(p)
		pass(100 * time.Millisecond)
		for _, req := range after {
			c.Go(req, nil)
		}
		pass(time.Minute)
	})
	return ttls
}

func renewalFor(ttl uint64) *wire.Request {
	return &wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: ttl, Domains: []string{"a:/b"}}
}

// TestOrderOfWhatIsAskedAgain: an acquire, and a renewal for less behind it, of one owner and namespace, are to be
// asked again. The renewal is not asked before it: else the acquire would make the lease long again that the program
// shortened behind it.
func TestOrderOfWhatIsAskedAgain(t *testing.T) {
	acquire := &wire.Request{
		Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: "a:/b/more"}},
	}
	if got := orderAgain(t, []*wire.Request{acquire, renewalFor(5000)}, nil); !slices.Equal(got,
		[]uint64{60_000, 5000}) {
		t.Errorf("asked were an acquire for 60 s, then a renewal for 5 s; the server got %v", got)
	}
}

// TestOrderOfANewRenewalBehindOneAskedAgain: a renewal is to be asked again and waits for room. The program asks for
// another one of the same owner and namespace: that waits behind it.
func TestOrderOfANewRenewalBehindOneAskedAgain(t *testing.T) {
	got := orderAgain(t, []*wire.Request{renewalFor(5000)}, []*wire.Request{renewalFor(600_000)})
	if !slices.Equal(got, []uint64{5000, 600_000}) {
		t.Errorf("asked were renewals for 5 s and for 600 s, in this order; the server got %v", got)
	}
}

// TestOrderOfAPromotedRenewalBehindOneAskedAgain: a renewal of what no Lock holds waits for room to be asked again.
// Then the program asks for one more like it, and for one of what a Lock holds, which is urgent and takes the other
// along. Neither is sent before the one that is asked again.
func TestOrderOfAPromotedRenewalBehindOneAskedAgain(t *testing.T) {
	other := func(ttl uint64) *wire.Request {
		return &wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: ttl, Domains: []string{"a:/s"}}
	}
	got := orderAgain(t, []*wire.Request{other(5000)}, []*wire.Request{other(600_000), renewalFor(4000)})
	if !slices.Equal(got, []uint64{5000, 600_000, 4000}) {
		t.Errorf("asked were renewals for 5 s, for 600 s and for 4 s, in this order; the server got %v", got)
	}
}
