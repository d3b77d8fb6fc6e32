package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAShorteningThatLapses: nobody knows what became of a renewal of the program's own, for two seconds. Its log takes
// it in the last moment in which it does, right behind a renewal of the client's, which is answered a moment later.
// Then no renewal is heard any more.
func TestAShorteningThatLapses(t *testing.T) {
	const short = 2 * time.Second
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		l, _ := taking(t, c, p, Owner("me"))
		unknown := make(chan error, 1)
		own := &wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: millis(short)}
		c.Go(own, func(_ *wire.Result, err error) { unknown <- err })
		p.refuse(p.want(wire.OpRenew), wire.DeadlineExceeded)
		if <-unknown == nil {
			t.Fatal("this shows nothing")
		}
		taken := time.Now().Add(time.Duration(testLimits.RepeatMillis) * time.Millisecond) // at last
		go p.serve(func(a *asked) *wire.Result {
			switch left := time.Until(taken); {
			case a.req.Op != wire.OpRenew:
			case left <= 0:
				return nil
			case left < time.Second:
				time.AfterFunc(left+time.Millisecond, func() { p.ok(a) })
				return nil
			}
			return granted(a.req)
		})
		pass(time.Until(taken))
		must(t, l.Err())
		pass(short + 10*time.Millisecond)
		if l.Err() == nil {
			t.Errorf("its lease is over, and it is believed in for %v more", time.Until(l.Deadline()))
		}
	})
}
