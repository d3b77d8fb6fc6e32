package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// forgetsSoon has the logs remember sessions for 5 s.
func forgetsSoon(cfg *Config) { cfg.stated = func(l *replica.Limits) { l.RememberMillis = 5000 } }

// TestWaitBehindItsSession: a client waits at a node that is cut off; it goes on at another one, has its lock, gives it
// back, and is done. Later its session is forgotten; then the first node is back, whose side of the client's connection
// still stands, and asks for the wait as it knew it.
func TestWaitBehindItsSession(t *testing.T) {
	const path = "h:/a/x"
	c := newCutFar(t, forgetsSoon)
	near, far := c.near, c.far
	holder := near.session()
	holder.must(write("holder", path, time.Hour))
	first := far.session()
	id := far.next.Add(1)
	req := func() *wire.Request {
		r := waiting(write("w", path, time.Hour))
		r.QueueTTLMillis = 600_000
		return r
	}
	o := first.start(id, req())
	<-o.queued
	c.deaf()
	c.cut()
	second := near.session()
	second.session = &wire.Session{ID: first.session.ID, Epoch: 2, Window: 256, First: id + 1}
	again := second.start(id, req())
	<-again.queued
	holder.must(release("holder", path))
	if res := again.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	if res := second.start(id+1, release("w", path)).get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	near.node.Closed(second.session, false, false)
	c.passes(8 * time.Second)
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Fatalf("held by %q", owner)
	}
	c.mend()
	res := o.get(t, "the first one") // on a connection at whose other end is nobody
	if res.Code != wire.Forgotten {
		t.Errorf("the copy left behind is answered %v %v", res.Code, res.Status)
	}
	far.node.Closed(first.session, false, false)
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("%q holds the path for an hour, of which nobody knows", owner)
	}
}

// TestKilledWaitBehindItsSession: likewise. A wait is granted, and its owner killed, while the node where its client
// waits cannot be reached; later that asks again, and the wait is carried out a second time.
func TestKilledWaitBehindItsSession(t *testing.T) {
	const path = "h:/a/x"
	c := newCutFar(t, forgetsSoon)
	near, far := c.near, c.far
	holder := near.session()
	holder.must(write("holder", path, time.Hour))
	req := waiting(write("w", path, time.Hour))
	req.QueueTTLMillis = 600_000
	o := far.session().start(far.next.Add(1), req)
	<-o.queued
	c.deaf()
	holder.must(release("holder", path))
	eventually(t, "it is granted", func() bool { return holder.inspect(path).Owner == "w" })
	c.cut()
	holder.must(&wire.Request{Op: wire.OpForceRelease, Owner: "w"})
	c.passes(8 * time.Second)
	c.mend()
	res := o.get(t, "the wait")
	if res.Code != wire.Forgotten {
		t.Errorf("it was granted, killed, and is answered %+v", res)
	}
}
