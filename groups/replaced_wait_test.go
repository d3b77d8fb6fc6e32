package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReplacedWaitIsAnswered: a tied wait is asked again on the next connection of its session, within its grace. The
// call of the connection before is answered too, though nobody hears it: who serves the connection lets go of its
// memory then.
func TestReplacedWaitIsAnswered(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, nil)
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	id := r.next.Add(1)
	tied := waiting(write("o", path, time.Hour))
	tied.Flags |= wire.FlagBind
	long := func(call *wire.Call) { call.Bound, call.Grace = true, 60_000 }
	first := c.startAs(id, tied, long)
	<-first.queued
	r.node.Closed(c.session, true, false)
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: c.session.Window, First: r.next.Add(1)}
	again := c.startAs(id, tied, long)
	<-again.queued
	holder.must(release("holder", path))
	if res := again.get(t, "the wait, asked again"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("it is answered %+v", res)
	}
	if !within(2*time.Second, 10*time.Millisecond, func() bool { return len(first.done) > 0 }) {
		t.Error("the call on the first connection is never answered")
	}
}
