package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLeftTheQueueForGood: the connection of a wait that is tied to nothing closes, and the log has it leave the queue;
// the answer to that does not reach the node of the connection, which loses its own to the leader. It does not ask anew
// for the wait that it knows to have ended: the log would take it for a new one, and grant it at once to nobody.
func TestLeftTheQueueForGood(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	f := apart(t, nil)
	r := f.rigOn(1)
	c, holder := r.session(), f.rigOn(0).session()
	holder.must(write("holder", path, time.Hour))
	<-c.start(r.next.Add(1), waiting(write("gone", path, time.Hour))).queued
	leads, l := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a")), r.node.logOf(r.node.groupOf("h:/a"))
	leads.pauses(true)
	r.node.Closed(c.session, false, false)
	eventually(t, "the leader is told of the end", func() bool {
		leads.mu.Lock()
		defer leads.mu.Unlock()
		return len(leads.mu.queue) > 0 && leads.mu.queue[len(leads.mu.queue)-1].Op == wire.OpCancelWait
	})
	l.mu.Lock() // its answers are not taken meanwhile
	leads.pauses(false)
	eventually(t, "the wait has left the queue", func() bool {
		return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) == 0
	})
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Fatalf("it is held by %q", owner)
	}
	// The connection to the leader is lost before they are: as shardLog.lost, which takes the lock.
	a := &l.mu.forwarded
	conn := a.conn
	for number, p := range a.parts {
		if p != nil {
			p.tried = true
			a.back = append(a.back, p)
			delete(a.parts, number)
		}
	}
	a.refused, a.gone = true, true
	l.comeBack()
	l.mu.Unlock()
	conn.Close(errTardy)
	r.node.peerGone(conn)
	l.kick()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if owner := holder.inspect(path).Owner; owner != "" {
			time.Sleep(time.Second) // the end is told behind it
			for _, lock := range holder.must(&wire.Request{Op: wire.OpListLocks, Owner: "gone"}).List.Infos {
				t.Fatalf("%s is held by %q, whose connection was gone and whose wait had left the queue, for %d ms",
					path, owner, lock.ExpiresInMillis)
			}
		}
	}
}

// TestNotAskedOnceGone: a wait that has not been proposed yet when its connection ends is not proposed any more; its
// caller is answered.
func TestNotAskedOnceGone(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, nil)
	c := r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	l.pauses(true)
	o := c.start(r.next.Add(1), waiting(write("gone", path, time.Hour)))
	r.node.Closed(c.session, false, false)
	l.pauses(false)
	if res := o.get(t, "the wait"); res.Code != wire.Cancelled {
		t.Errorf("it is answered %+v", res)
	}
	other := r.session()
	other.must(release("other", path)) // behind it
	if owner := other.inspect(path).Owner; owner != "" {
		t.Errorf("%s is held by %q, whose connection was gone", path, owner)
	}
}

// TestAdriftIsNoOrphan: who leads does not end a wait that nobody asks for any more, if the log knows that its
// connection is gone: its session may come back for as long as the grace.
func TestAdriftIsNoOrphan(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, nil)
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	tied := func(call *wire.Call) { call.Bound, call.Grace = true, 60_000 }
	o := c.startAs(r.next.Add(1), waiting(write("tied", path, time.Hour)), tied)
	<-o.queued
	waiters := func() int { return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) }
	endAll := func() {
		l := r.node.logOf(r.node.groupOf("h:/a"))
		for _, p := range r.node.waits.those(func(p *part) bool { return p.log == l }) {
			r.node.waits.take(p.caller(), p) // as if its node had not asked since this one leads
		}
		r.node.inherit(l, l.held.Load())
		left := &r.node.forwards.left
		left.mu.Lock()
		for i := range left.list {
			left.list[i].due = 1
		}
		left.mu.Unlock()
		r.node.endOrphans()
		holder.must(release("nobody", path)) // behind it
	}
	r.node.Closed(c.session, true, false)
	holder.must(release("nobody", path))
	if endAll(); waiters() != 1 {
		t.Error("it has left the queue before its grace was over")
	}
	loose := r.session()
	<-loose.start(r.next.Add(1), waiting(write("loose", path, time.Hour))).queued
	if endAll(); waiters() != 1 {
		t.Error("what nobody asks for any more, as far as the log knows, still waits")
	}
}
