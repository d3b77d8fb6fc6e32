package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledOfManyPaths: an owner's lease is killed under which one lock has 64 paths, and another one a path behind
// those. The server looks at 64 holds to name what it is about (engine/told.go), and so names the first lock alone.
// Then nothing more gets through.
func TestKilledOfManyPaths(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		_, mark := taking(t, c, p, Owner("me"))
		got := make(chan *Lock, 1)
		go func() {
			l, _ := c.Lock(context.Background(), "a:/b/z", Owner("me"), TTL(time.Hour))
			got <- l
		}()
		p.ok(p.wantPast(wire.OpAcquire))
		last := <-got
		silent := false
		go p.serve(func(a *asked) *wire.Result {
			if silent {
				return nil
			}
			return granted(a.req)
		})
		pass(time.Minute)
		silent = true
		p.tell(wire.EventKilled, "me", mark)
		pass(10 * time.Second)
		if last.Err() == nil {
			t.Errorf("ten seconds after its lease was killed it is believed in, until %v from now",
				time.Until(last.Deadline()))
		}
	})
}
