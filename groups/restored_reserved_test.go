package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRestoredCallReservesNothing: a call of gRPC of the old cluster waits for two paths, one of which is free; behind
// it somebody waits for the free one. In the restored cluster the call is over, and who waits behind it gets the path
// without anybody's doing.
func TestRestoredCallReservesNothing(t *testing.T) {
	r := newRig(t, nil)
	holder, back, calling := r.session(), r.session(), r.served()
	holder.must(write("holder", "h:/a/x", time.Hour))
	req := waiting(write("call", "h:/a/x", time.Hour))
	req.Locks = append(req.Locks, wire.LockRequest{Path: "h:/a/y"})
	req.QueueTTLMillis = 3_600_000
	calling.start(r.next.Add(1), req)
	eventually(t, "the call waits", func() bool {
		return len(back.must(&wire.Request{Op: wire.OpDescribe, Path: "h:/a/y"}).List.Waiters) == 1
	})
	late := waiting(write("back", "h:/a/y", time.Hour))
	late.QueueTTLMillis = 3_600_000
	back.start(r.next.Add(1), late)
	polled := write("polls", "h:/a/y", time.Hour)
	if res := holder.ask(polled); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	other, _ := r.restore(r.save(nil))
	c := other.session()
	if !within(5*time.Second, 50*time.Millisecond, func() bool { return c.inspect("h:/a/y").Owner == "back" }) {
		t.Errorf("h:/a/y is held by %q, and %d wait", c.inspect("h:/a/y").Owner,
			len(c.must(&wire.Request{Op: wire.OpDescribe, Path: "h:/a/y"}).List.Waiters))
	}
	c.must(release("back", "h:/a/y"))
	if owner := c.inspect("h:/a/y").Owner; owner != "polls" {
		t.Errorf("held by %q", owner)
	}
}
