package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// takenOver has a session at a node that forwards: it holds a lock that is tied to its connection, has a tied
// wait, and then goes on on a later connection to the same node (resumed), which stands.
func takenOver(t *testing.T) (r *rig, c *caller, l *shardLog) {
	f := apart(t, nil)
	r = f.rigOn(1)
	c = r.session()
	holder := r.session()
	holder.must(write("holder", "h:/a/x", time.Hour))
	held := write("kept", "h:/a/y", time.Hour)
	held.Flags = wire.FlagBind
	c.must(held)
	wait := waiting(write("tied", "h:/a/x", time.Hour))
	wait.Flags |= wire.FlagBind
	<-c.start(r.next.Add(1), wait).queued
	first := c.session
	c.session = later(first)
	r.node.Closed(first, true, true) // the session goes on on the later connection
	return r, c, r.node.logOf(r.node.groupOf("h:/a"))
}

// askAnew closes the connection to the leader, and waits until the node has asked it anew for the waits.
func askAnew(t *testing.T, r *rig, c *caller, l *shardLog) {
	t.Helper()
	l.mu.Lock()
	conn, lane := l.mu.forwarded.conn, l.mu.forwarded.lane
	l.mu.Unlock()
	if conn == nil {
		t.Fatal("nothing is away")
	}
	conn.Close(errTardy)
	r.node.peerGone(conn)
	eventually(t, "the node has asked anew", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mu.forwarded.lane > lane && len(l.mu.queue) == 0
	})
	c.must(release("nobody", "h:/a/n")) // behind it
}

// TestResumedIsNotGone: a session goes on on a later connection to the same node, and that node then has to ask anew
// for the waits of the log. What it tells of the earlier connection's wait does not end what is tied to the session:
// "the ties hang on its new connection from the hello on" (PROTOCOL.md, section 3).
func TestResumedIsNotGone(t *testing.T) {
	t.Parallel()
	r, c, l := takenOver(t)
	time.Sleep(500 * time.Millisecond) // five graces
	alive := func() bool {
		return c.must(&wire.Request{Op: wire.OpIsOwnerAlive, Owner: "kept"}).Flag
	}
	if !alive() {
		t.Fatal("the take-over ends the lease")
	}
	askAnew(t, r, c, l)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if !alive() {
			t.Fatal("the lease of 1 h is over after its node asked anew for a wait, though the session's " +
				"connection stands")
		}
	}
}
