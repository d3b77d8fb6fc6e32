package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnheardWaitLeavesTheQueue: a waiting acquire that is tied to nothing is answered by its node that nobody knows
// what became of it, as the leader was later than request_timeout_ms. It may have a place in the queue all the same; if
// its client does not come back, it is not granted to nobody for its TTL.
func TestUnheardWaitLeavesTheQueue(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	f := apart(t, func(i int, c *Config) {
		if i == 1 {
			c.RequestTimeout = time.Second
		}
	})
	r, holder := f.rigOn(1), f.rigOn(0).session()
	holder.must(write("holder", path, time.Hour))
	leads := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a"))
	c := r.session()
	leads.pauses(true)
	long := waiting(write("gone", path, time.Hour))
	long.QueueTTLMillis = 3_600_000
	o := c.start(r.next.Add(1), long)
	if res := o.get(t, "the wait"); res.Code != wire.DeadlineExceeded {
		t.Fatalf("it is answered %+v", res)
	}
	r.node.Closed(c.session, false, false)
	leads.pauses(false)
	holder.must(release("nobody", path)) // behind it
	eventually(t, "that nobody waits", func() bool {
		return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) == 0
	})
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("%s is held by %q, whose connection is gone", path, owner)
	}
}
