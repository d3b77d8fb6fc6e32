package groups

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestGrantedWhileAskedAgain: a wait is granted while it is asked again on the next connection: each call is answered
// once, and (with -race) nobody looks at what another one writes.
func TestGrantedWhileAskedAgain(t *testing.T) {
	t.Parallel()
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	b.one(bareAsk(bareSession(0), 1, write("holder", "h:/a/x", time.Hour)))
	s := bareSession(1)
	req := waiting(write("w", "h:/a/x", time.Hour))
	for i := range 30_000 {
		ask := func(s *wire.Session, to wire.Replier) *part {
			c := &wire.Call{ID: 1, Op: req.Op, Req: req, Session: s, To: to}
			p := partOf(c)
			*p = part{Command: replica.Command{Op: c.Op, Session: s, ID: 1}, call: c, log: b.l, waits: true}
			return p
		}
		to := new(usedAgain)
		first, again := ask(s, to), ask(later(s), new(usedAgain))
		b.n.attach(first, new(repliers))
		b.m.Lock()
		b.n.deliver(first, &wire.Result{Status: wire.StatusQueued, Namespace: "h:/a"}, new(repliers))
		b.m.Unlock()
		var ready atomic.Int32
		var both sync.WaitGroup
		meet := func() {
			ready.Add(1)
			for ready.Load() < 2 {
				runtime.Gosched()
			}
		}
		both.Go(func() {
			b.m.Lock()
			defer b.m.Unlock()
			meet()
			b.by.WaitOver(&engine.Answer{Caller: first.caller(), NS: "h:/a"})
		})
		both.Go(func() {
			meet()
			for range i % 100 {
				runtime.KeepAlive(i)
			}
			b.n.attach(again, new(repliers))
		})
		both.Wait()
		if n := to.answered.Load(); n != 1 {
			t.Fatalf("answered %d times", n)
		}
		b.n.waits.take(again.caller(), again)
	}
}
