package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestUnseenSinceStart: a client waits at a node that is cut off. Another node is restarted meanwhile, as in a
// rolling upgrade, and leads after that. It has not seen the first one since its start, but knows of it. The place is
// kept, as it is by a leader that was not restarted (TestPlacesOutliveIsolation): eviction_window_secs is an hour.
func TestUnseenSinceStart(t *testing.T) {
	t.Parallel()
	c := cutWaits(t, false, time.Hour)
	f := c.f
	stays, restarts := (c.first+1)%3, (c.first+2)%3
	away := c.node().id.HostID
	f.until("the cut off node is seen to be away", func() bool {
		s, ok := f.nodes[stays].cluster.sighting(away)
		return !ok || !s.Alive
	})
	if err := f.nodes[restarts].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[restarts] = nil
	n := f.start(restarts)
	f.until("it is back", func() bool { return n.health().Flag })
	if c.leader = f.leader(c.path); c.leader != restarts {
		f.handOver(rows.FirstLog, restarts)
	}
	f.until("it leads", func() bool { return n.logs[rows.FirstLog].leads() })
	time.Sleep(reattachGrace + 2*time.Second) // by the clocks of the nodes, which are the machine's here
	if len(c.waits.o.done) > 0 {
		t.Fatalf("answered %+v", <-c.waits.o.done)
	}
	c.back()
	row := c.holder.must(&wire.Request{Op: wire.OpDescribe, Path: c.path}).List.Waiters
	if len(row) != 2 || row[0].Owner != "first" {
		t.Fatalf("nobody cancelled the first wait, whose client and node are there; the queue is now %+v", row)
	}
	c.holder.must(release("holder", c.path))
	c.granted(c.waits, c.behind)
}
