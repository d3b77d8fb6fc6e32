package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv11UnheardWaitStays: a waiting acquire, tied to nothing, is answered code 4 by its node as the leader did not say within
// request_timeout_ms that it has its place; the leader takes it up after that, and the client's connection closes. The node has forgotten
// the wait by then and tells nobody of its end (openWaits has it no more, and Closed tells logs of the end of a connection only where
// something is tied), so it stays in the queue and is granted for all of its TTL to a client that is gone. PROTOCOL.md, section 3: "A
// waiting acquire leaves the queue when its connection closes: at once".
func TestAdv11UnheardWaitStays(t *testing.T) {
	const path = "h:/a/x"
	f := apart(t, func(i int, c *Config) {
		if i == 1 {
			c.RequestTimeout = time.Second
		}
	})
	r := f.rigOn(1)
	c, holder := r.session(), f.rigOn(0).session()
	holder.must(write("holder", path, time.Hour))
	leads := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a"))
	hold := func(until time.Duration) {
		leads.drive.Lock()
		leads.drive.hold = until
		leads.drive.Unlock()
		leads.kick()
	}
	hold(leads.clock.Mono() + time.Minute)
	res := c.start(r.next.Add(1), waiting(write("gone", path, time.Hour))).get(t, "the wait")
	if res.Code != wire.DeadlineExceeded {
		t.Fatalf("the wait is answered %+v", res)
	}
	hold(0)
	waiters := func() int { return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) }
	eventually(t, "the log has the wait", func() bool { return waiters() == 1 })
	r.node.Closed(c.session, false, false)
	for end := time.Now().Add(2 * time.Second); waiters() > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	holder.must(release("holder", path))
	for _, lock := range holder.must(&wire.Request{Op: wire.OpListLocks, Owner: "gone"}).List.Infos {
		t.Errorf("%s is held by %q, whose connection was gone 2 s before it was granted, for %d ms", path, lock.Owner, lock.ExpiresInMillis)
	}
}
