package groups

import (
	"bytes"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOrphanOfAnOverlookedOffice: a client waits at the node that leads. Another node leads for a while, which the first one
// is not told before it leads again, so that it has the call open still. Meanwhile the client went on at the other node,
// asked again there, and is gone. Nobody asks for the wait any more, and the call that was left behind does not count as
// somebody: the wait ends, and that call with it. Else the lock would be granted to nobody, for the whole TTL. (So it was in
// the simulation, seed 103872.)
func TestOrphanOfAnOverlookedOffice(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	n := r.node
	l := n.logOf(n.groupOf("h:/a"))
	m := l.local.Load()
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	req := waiting(write("waits", path, time.Hour))
	req.QueueTTLMillis = 3_600_000
	id := r.next.Add(1)
	behind := c.start(id, req)
	<-behind.queued
	caller := (&part{session: c.session, id: id}).caller()

	was := l.lead.Load()
	other := office{term: was.term + 1, node: was.leader + 1, incarnation: 99}
	proposed(t, l, appendOffice(nil, n.formats.written(), other, n.cfg.limits()))
	again := &part{op: wire.OpAcquire, group: n.groupOf("h:/a"), nsLen: len("h:/a"), session: later(c.session), id: id}
	again.body, again.nargs = wire.AppendArgs(nil, req)
	var w batchWriter
	w.reset()
	w.add(again)
	head := batchHead{format: n.formats.written(), office: other, number: 1, next: true, stamp: m.stamp(other, l.clock.Mono())}
	proposed(t, l, bytes.Clone(w.entry(&head)))
	l.leaderChanged(was.term+2, was.leader)
	eventually(t, "it leads again", l.leads)
	n.Closed(c.session, false, false) // it finds out that the connection has ended

	left := &n.forwards.left
	eventually(t, "it notes that the wait has nobody to tell", func() bool {
		left.mu.Lock()
		defer left.mu.Unlock()
		noted := false
		for i := range left.list {
			if o := &left.list[i]; o.caller == caller && o.epoch == again.session.Epoch {
				noted, o.due = true, 0 // its grace is over
			}
		}
		return noted
	})
	n.endOrphans()
	r.session().must(release("nobody", path)) // behind the end
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("%s is held by %q, whose client is gone", path, owner)
	}
	if n.waits.get(caller) != nil {
		t.Error("its call stays open")
	}
	if len(behind.done) == 0 {
		t.Error("the call on the first connection is never answered")
	}
}
