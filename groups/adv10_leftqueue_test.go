package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv10LeftTheQueueForGood: the connection of a wait that is tied to nothing closes, and the log has it leave the queue;
// the answer to that does not reach the node of the connection, which loses its own to the leader. It asks anew for the wait
// that it knows to have ended, and the log, where that left with its connection, takes it for a new one and grants it at once,
// for all of its TTL, to a client that is gone; the end that is told behind it finds no wait any more, and the detach that is
// told since is told for tied waits alone. PROTOCOL.md section 3: "A waiting acquire leaves the queue when its connection
// closes: at once".
func TestAdv10LeftTheQueueForGood(t *testing.T) {
	const path = "h:/a/x"
	f := apart(t, nil)
	r := f.rigOn(1)
	c, holder := r.session(), f.rigOn(0).session()
	holder.must(write("holder", path, time.Hour))
	<-c.start(r.next.Add(1), waiting(write("gone", path, time.Hour))).queued
	leads, l := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a")), r.node.logOf(r.node.groupOf("h:/a"))
	hold := func(until time.Duration) {
		leads.drive.Lock()
		leads.drive.hold = until
		leads.drive.Unlock()
		leads.kick()
	}
	hold(leads.clock.Mono() + time.Minute)
	r.node.Closed(c.session, false, false)
	eventually(t, "the leader is told of the end", func() bool {
		leads.mu.Lock()
		defer leads.mu.Unlock()
		return len(leads.mu.queue) > 0 && leads.mu.queue[len(leads.mu.queue)-1].op == wire.OpCancelWait
	})
	l.mu.Lock() // its answers are not taken meanwhile
	hold(0)
	eventually(t, "the wait has left the queue", func() bool {
		return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) == 0
	})
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Fatalf("it is held by %q", owner)
	}
	// The connection to the leader is lost before they are: as shardLog.lost, which takes the lock.
	a := &l.mu.away
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
				t.Fatalf("%s is held by %q, whose connection was gone and whose wait had left the queue, for %d ms", path, owner, lock.ExpiresInMillis)
			}
		}
	}
}
