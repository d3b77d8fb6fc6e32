package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAnsweredByTheirReplica: two replicas of one log may apply at a time, when one is being stopped. Who is answered
// by one is flushed by that one: the other is in the middle of an entry.
func TestAnsweredByTheirReplica(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	another := &applier{shardLog: b.l}
	to := new(flushes)
	s := bareSession(1)
	req := waiting(write("w", "h:/a", 0))
	c := &wire.Call{ID: 1, Op: req.Op, Req: req, Session: s, To: to}
	p := partOf(c)
	*p = part{Command: replica.Command{Op: c.Op, Session: s, ID: 1}, call: c, log: b.l, waits: true}
	b.n.attach(p, new(repliers))
	b.n.deliver(p, &wire.Result{Status: wire.StatusQueued, Namespace: "h:/a"}, new(repliers))
	b.by.WaitOver(&engine.Answer{Caller: p.caller(), NS: "h:/a"})
	if another.Flush(); to.flushed != 0 {
		t.Error("the other replica flushed the answer")
	}
	if b.by.Flush(); to.flushed != 1 || to.answered != 1 {
		t.Errorf("flushed %d times, answered %d times", to.flushed, to.answered)
	}
}

// flushes counts what a connection is told.
type flushes struct{ answered, flushed int }

func (f *flushes) Reply(*wire.Call)              { f.answered++ }
func (f *flushes) Flush()                        { f.flushed++ }
func (*flushes) Queued(*wire.Call, *wire.Result) {}

// TestGapBehindAGap: batches may be missed in any order. What is between two of them does not end the later one's gap.
func TestGapBehindAGap(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	b.l.mu.order.term = b.own.Term
	b.by.Gap(b.own.Term, 7)
	b.by.Gap(b.own.Term, 5)
	b.by.Gap(b.own.Term+1, 9) // of another term
	if b.by.Barrier(b.own, 6); !b.l.hasGap() {
		t.Error("the later gap is over with a barrier before it")
	}
	if b.by.Barrier(b.own, 8); b.l.hasGap() {
		t.Error("the gap is not over with a barrier behind it")
	}
	if b.by.Barrier(b.own, 6); b.l.hasGap() {
		t.Error("an earlier barrier takes the later one's place")
	}
}
