package pathlockd

import (
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestHeldBackAndThenTooMany: Go takes a request that its way holds back, and when that moves, the queue of the new
// lane is full: it is taken all the same.
func TestHeldBackAndThenTooMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 1, 1)
		c := f.client(WithBacklog(1), WithWindow(1))
		f.warm(c)
		type held struct {
			p *peer
			a *asked
		}
		var mu sync.Mutex
		open := make(map[string]held)
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Owner == "slow" || a.req.Owner == "slow elsewhere" {
				mu.Lock()
				defer mu.Unlock()
				open[a.req.Owner] = held{p, a}
				return nil
			}
			return granted(a.req)
		}
		ask := func(owner string, group int) chan error {
			done := make(chan error, 1)
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: in(group)}}},
				func(_ *wire.Result, err error) { done <- err })
			return done
		}
		ask("slow", 0)
		ask("slow elsewhere", 2)
		pass(0)
		f.lead(1, 0, 1, 1)
		f.tell()
		pass(0)
		mine := ask("held back", 0)
		ask("fills the queue", 2)
		pass(0)
		answer := func(owner string) {
			mu.Lock()
			o := open[owner]
			mu.Unlock()
			o.p.ok(o.a)
		}
		answer("slow")
		pass(0)
		answer("slow elsewhere")
		pass(0)
		select {
		case err := <-mine:
			must(t, err)
		default:
			t.Error("it is not answered")
		}
	})
}
