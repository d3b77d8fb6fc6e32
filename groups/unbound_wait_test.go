package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnboundWaitLeaves: a client waits for a lock whose lease is to be tied, and unties it with an unbind of the owner
// before it is granted. Its connection ends. The wait leaves the queue at once, as its lease is to be tied no more
// (PROTOCOL.md, leases that follow the connection: bind and unbind reach the acquires that wait on the session). Else
// it is granted within the grace to a client that has gone, for the whole of its TTL.
func TestUnboundWaitLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, other := r.session(), r.session()
	const path = "h:/a/x"
	other.must(write("holder", path, time.Hour))
	req := waiting(write("o", path, time.Hour))
	req.Flags |= wire.FlagBind
	c.startAs(r.next.Add(1), req, func(c *wire.Call) { c.Grace = 10_000 }).isQueued(t)
	c.must(&wire.Request{Op: wire.OpUnbind, Owner: "o"})
	r.node.Closed(c.session, true, false)
	other.must(release("holder", path))
	if res := other.inspect(path); res.Owner != "" {
		t.Errorf("%s is held by %q, whose connection is gone", path, res.Owner)
	}
}

// TestBoundWaitStays: a client waits for a lock, and binds its owner before that is granted. Its connection breaks, and
// it asks again on the next one within the grace: it has the place that it had (PROTOCOL.md, as above: a waiting
// acquire whose lease is to be tied leaves the queue after the grace).
func TestBoundWaitStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, other := r.session(), r.session()
	const path = "h:/a/x"
	other.must(write("holder", path, time.Hour))
	req, id := waiting(write("o", path, time.Hour)), r.next.Add(1)
	c.start(id, req).isQueued(t)
	bind := &wire.Request{Op: wire.OpBind, Owner: "o", GraceMillis: 10_000, Flags: wire.FlagBind}
	c.startAs(r.next.Add(1), bind, func(c *wire.Call) { c.Grace = 10_000 }).get(t, "the bind")
	other.start(r.next.Add(1), waiting(write("behind", path, time.Hour))).isQueued(t)
	r.node.Closed(c.session, true, false)
	c.session = later(c.session)
	c.session.First = r.next.Add(1)
	c.start(id, req).isQueued(t)
	other.must(release("holder", path))
	if res := other.inspect(path); res.Owner != "o" {
		t.Errorf("%s is held by %q, who came behind a wait that was asked again within its grace", path, res.Owner)
	}
}

// isQueued waits until a call has its place.
func (o *outcome) isQueued(t *testing.T) {
	t.Helper()
	select {
	case <-o.queued:
	case res := <-o.done:
		t.Fatalf("it does not wait: %+v", res)
	case <-time.After(20 * time.Second):
		t.Fatal("it is told no place")
	}
}
