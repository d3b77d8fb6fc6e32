package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestEndsOutlastRequests: a call waits, and its process is over. The log takes nothing for longer than requests are
// kept waiting; meanwhile the lease that is in the call's way runs out. Once the log takes something again, nobody who
// is over is granted anything.
func TestEndsOutlastRequests(t *testing.T) {
	const timeout = time.Second
	r := newRig(t, func(c *Config) { c.LogCount, c.RequestTimeout = 1, timeout })
	holder, calling, c := r.session(), r.served(), r.session()
	holder.must(write("holder", "h:/a/x", 2*timeout))
	r.row(calling, "call", "h:/a/x")
	l := r.node.logs[rows.FirstLog]
	r.clock.freeze()
	l.pauses(true)
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	o := c.start(r.next.Add(1), write("other", "h:/b", time.Hour))
	r.clock.advance(3 * timeout)
	l.kick()
	o.get(t, "a request that is kept waiting for too long")
	r.clock.run()
	l.pauses(false)
	if res := c.start(r.next.Add(1), waiting(write("next", "h:/a/x", time.Hour))).get(t,
		"who waits behind the call"); res.Status != wire.StatusOK {
		t.Errorf("%+v", res)
	}
}
