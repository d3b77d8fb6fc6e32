package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAskedAnewAfterItsConnection: a node asks anew for waits whose answers it may have missed. Of those that ended with
// their connection it tells the log again that they did; and once for the connection, behind all of them, that this is gone:
// a wait that was over in the log is asked for as if it were new, may be granted at once, and ties its lease to the connection.
// What is tied to none, or was given up by its client, takes nothing with it.
func TestAskedAnewAfterItsConnection(t *testing.T) {
	r := newRig(t, nil)
	holder, tied, loose := r.session(), r.session(), r.session()
	path := "h:/a/x"
	holder.must(write("holder", path, time.Hour))
	start := func(c *caller, owner string, bound bool) *part {
		t.Helper()
		id := r.next.Add(1)
		o := c.startAs(id, waiting(write(owner, path, time.Hour)), func(call *wire.Call) { call.Bound, call.Grace = bound, 2000 })
		<-o.queued
		return r.node.waits.get(engine.Caller{Session: engine.Session(c.session.ID), ID: id})
	}
	one, two, untied, stands := start(tied, "one", true), start(tied, "two", true), start(loose, "three", false), start(holder, "four", true)
	given := start(holder, "five", true)
	for _, c := range []*caller{tied, loose} {
		r.node.waits.endAll(engine.Session(c.session.ID), func(*part) (uint64, bool) { return 2000, true })
	}
	if _, ok := r.node.waits.end(given.caller()); !ok {
		t.Fatal("it does not wait")
	}
	l := one.log
	l.mu.Lock()
	out := l.withEndings([]*part{one, untied, two, stands, given})
	l.mu.Unlock()
	var ops []wire.Op
	for _, p := range out {
		if ops = append(ops, p.op); p.op != wire.OpAcquire {
			r.node.land(p) // nothing of it is carried out here
		}
	}
	want := []wire.Op{
		wire.OpAcquire, wire.OpCancelWait, wire.OpAcquire, wire.OpCancelWait, wire.OpAcquire, wire.OpCancelWait, wire.OpAcquire,
		wire.OpAcquire, wire.OpCancelWait, wire.OpDetach,
	}
	if !slices.Equal(ops, want) {
		t.Fatalf("the log is asked %v, want %v", ops, want)
	}
	if last := out[len(out)-1]; last.session.ID != tied.session.ID || last.session.Epoch != tied.session.Epoch {
		t.Errorf("the connection that is gone is %+v", last.session)
	}
}
