package groups

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// usedAgain is a replier as loop's: a call that is answered is another's at once.
type usedAgain struct{ answered, late atomic.Int32 }

func (p *usedAgain) Reply(*wire.Call) { p.answered.Add(1) }
func (p *usedAgain) Queued(*wire.Call, *wire.Result) {
	if p.answered.Load() > 0 {
		p.late.Add(1)
	}
}
func (p *usedAgain) Flush() {}

// TestQueuedAfterTheAnswer: a log tells a waiting acquire its place (deliver), while its client asks it again on the
// next connection of its session (attach). A call that was answered is used again, so it must not be told anything
// after that.
func TestQueuedAfterTheAnswer(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	late := 0
	const rounds = 30_000
	end := time.Now().Add(10 * time.Second)
	i := 0
	for ; i < rounds && time.Now().Before(end); i++ {
		s := bareSession(i)
		to := new(usedAgain)
		req := waiting(write("o", "h:/a/x", time.Hour))
		ask := func(s *wire.Session, to wire.Replier) *part {
			c := &wire.Call{ID: 1, Op: req.Op, Req: req, Session: s, To: to}
			p := partOf(c)
			*p = part{Command: replica.Command{Op: c.Op, Session: s, ID: 1}, call: c, log: b.l, waits: true}
			return p
		}
		first, again := ask(s, to), ask(later(s), new(usedAgain))
		b.n.attach(first, new(repliers))
		res := wire.Result{Status: wire.StatusQueued, Namespace: "h:/a"}
		var ready atomic.Int32
		var both sync.WaitGroup
		meet := func() {
			ready.Add(1)
			for ready.Load() < 2 {
				runtime.Gosched()
			}
		}
		both.Go(func() { meet(); b.n.deliver(first, &res, new(repliers)) })
		both.Go(func() {
			meet()
			for range i % 40 {
				ready.Load()
			}
			b.n.attach(again, new(repliers))
		})
		both.Wait()
		if to.answered.Load() != 1 {
			t.Fatalf("answered %d times", to.answered.Load())
		}
		late += int(to.late.Load())
		b.n.waits.take(again.caller(), again)
	}
	if late > 0 {
		t.Errorf("of %d calls %d were told that they are queued after they were answered", i, late)
	}
}
