package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAskedAnewAfterItsConnection: of waits whose answers it may have missed, a node asks anew for those whose
// connections stand, and tells the log once more of the ends of others: one that ended with its connection may be over
// in the log, which would take it for a new one. Who gave a wait up himself is still there to hear what became of it.
func TestAskedAnewAfterItsConnection(t *testing.T) {
	r := newRig(t, nil)
	holder, tied, loose := r.session(), r.session(), r.session()
	path := "h:/a/x"
	holder.must(write("holder", path, time.Hour))
	start := func(c *caller, owner string, bound bool) *part {
		t.Helper()
		id := r.next.Add(1)
		tie := func(call *wire.Call) { call.Bound, call.Grace = bound, 2000 }
		o := c.startAs(id, waiting(write(owner, path, time.Hour)), tie)
		<-o.queued
		return r.node.waits.get(engine.Caller{Session: engine.Session(c.session.ID), ID: id})
	}
	one, two, untied := start(tied, "one", true), start(tied, "two", true), start(loose, "three", false)
	stands, given := start(holder, "four", true), start(holder, "five", true)
	for _, c := range []*caller{tied, loose} {
		r.node.waits.endAll(engine.Session(c.session.ID), func(*part) (uint64, bool) { return 2000, true })
	}
	if _, ok := r.node.waits.end(given.caller()); !ok {
		t.Fatal("it does not wait")
	}
	l := one.log
	l.drive.Lock()
	l.mu.Lock()
	l.inFront(l.withEndings([]*part{one, untied, two, stands, given}))
	out, gone := l.unqueue(true)
	l.mu.Unlock()
	l.drive.Unlock()
	var ops []wire.Op
	for _, p := range out {
		if ops = append(ops, p.Op); p.Op != wire.OpAcquire {
			r.node.finish(p) // nothing of it is carried out here
		}
	}
	want := []wire.Op{
		wire.OpCancelWait, wire.OpCancelWait, wire.OpCancelWait, wire.OpAcquire, wire.OpAcquire, wire.OpCancelWait,
	}
	if !slices.Equal(ops, want) || !slices.Equal(gone, []*part{one, untied, two}) {
		t.Fatalf("the log is asked %v, want %v; %d waits are not asked for", ops, want, len(gone))
	}
}
