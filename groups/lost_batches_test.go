package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestLostBatches loses two batches with a third command still in the queue: all are
// carried out, in the order in which they were asked.
func TestLostBatches(t *testing.T) {
	r := newLossRig(t)
	l := r.l
	l.drive.Lock()
	free := r.c.start(r.next.Add(1), release("a", "h:/a"))
	if f := l.takeBatch(r.own); f == nil || len(f.parts) != 1 {
		t.Errorf("took %+v", f)
	}
	l.drive.number++
	next := write("b", "h:/a", time.Hour)
	next.Flags |= wire.FlagNoQueue
	took := r.c.start(r.next.Add(1), next)
	l.Gap(r.own.Term, l.drive.number)
	l.drive.Unlock()
	l.kick()
	last := int64(0)
	for _, o := range []struct {
		what string
		*outcome
	}{{"the acquire", r.took}, {"the release", free}, {"the next acquire", took}} {
		res := r.answer(o.outcome, o.what)
		if res.Code != wire.OK || res.Status != wire.StatusOK || res.Token != 0 && res.Token <= last {
			t.Errorf("%s: %+v after token %d", o.what, res, last)
		}
		last = max(last, res.Token)
	}
	if res := r.c.inspect("h:/a"); res.Owner != "b" {
		t.Errorf("held by %q", res.Owner)
	}
	r.idle()
}

// TestStrangeBatches: a batch that comes late, or of an earlier leader epoch, does not count,
// and does not let another one count that came too late.
func TestStrangeBatches(t *testing.T) {
	r := newLossRig(t)
	m := r.l.local.Load()
	if res := r.c.ask(write("c", "h:/c", time.Hour)); res.Status != wire.StatusOK { // behind it comes a barrier
		t.Fatalf("%+v", res)
	}
	r.answer(r.took, "the acquire")
	last := func() uint64 {
		m.Lock()
		defer m.Unlock()
		return m.Number
	}
	const lost = 1 // numbers begin there
	appears := func(what string, own replica.LeaderEpoch, number uint64, next bool) {
		t.Helper()
		at, was := m.AppliedIndex(), last()
		var w replica.BatchWriter
		w.Reset()
		if next {
			p := &part{Command: replica.Command{Op: wire.OpAcquire, Group: r.node.groupOf("h:/d"), NSLen: len("h:/d"),
				Session: r.session().session, ID: 1}}
			p.Body, p.NArgs = wire.AppendArgs(nil, write("d", "h:/d/x", time.Hour))
			w.Add(&p.Command, p.attempts())
		}
		entry := w.Entry(&replica.BatchHead{Format: r.node.formats.Written(), LeaderEpoch: own, Number: number,
			Next: next, Stamp: m.Stamp(own, r.l.clock.Mono())})
		proposed(t, r.l, entry)
		eventually(t, "it is applied", func() bool { return m.AppliedIndex() > at })
		if now := last(); now < was {
			t.Errorf("%s: batches count from %d on, %d before", what, now, was)
		}
		if owner := r.c.inspect("h:/d/x").Owner; owner != "" {
			t.Errorf("%s: %s got a lock", what, owner)
		}
	}
	r.clock.freeze() // nothing ticks
	defer r.clock.run()
	appears("a barrier of before", r.own, lost, false)
	appears("a batch of before", r.own, lost, true)
	older := r.own
	older.Term--
	appears("a batch of an earlier leader epoch", older, last()+1, true)
	other := r.own
	other.Incarnation++
	appears("a batch of another process", other, last()+1, true)
}
