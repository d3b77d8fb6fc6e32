package pathlockd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLeftBeforeItsTime: a node of three that led everything is cut off from its peers. Its logs get new leaders one after the other,
// each half a second after the one before, which is told. What was under way to it is asked for by way of the next node, which is well and
// answers within 0.7 s, as all that are left do. "A node that takes longer than two seconds is left": this one does not take so long.
func TestLeftBeforeItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, 1, 1, 1, 1)
		c := f.client()
		f.warm(c)
		var mu sync.Mutex
		off := false
		f.serve = func(p *peer, a *asked) *wire.Result {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.req.Op == wire.OpPing || !off:
			case p.node == "n1":
				return nil
			}
			time.AfterFunc(700*time.Millisecond, func() { p.ok(a) })
			return nil
		}
		mu.Lock()
		off = true
		mu.Unlock()
		for g := range groupsOfFleet {
			go func() {
				_ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(g)}}, false, "")
			}()
		}
		pass(0)
		f.mu.Lock()
		hellos := len(f.hellos)
		f.mu.Unlock()
		for _, leads := range [][]int{{0, 1, 1, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 0, 0, 0}} {
			f.lead(leads...)
			f.tell()
			pass(500 * time.Millisecond)
		}
		pass(30 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.hellos) - hellos; n != 1 {
			t.Errorf("%d connections were made anew, and not the cut off one's alone", n)
			for _, p := range f.hellos[hellos:] {
				t.Log(p.node)
			}
		}
	})
}
