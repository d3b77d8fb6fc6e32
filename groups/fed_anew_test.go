package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestFedAnewHearsNoPast: a node that is fed starts anew, and the first feed brings all that its source keeps, however
// old. Who subscribed from now on is told none of that, nor is a tap, which heard it of the earlier run of the node; but
// of a gap, as it may have happened since. Who goes on from a cursor is told what came after that.
func TestFedAnewHearsNoPast(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.Faults = w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second // a log without a leader is no gap so soon
	})
	c := f.rigOn(0).session()
	path := "h:/stale/x"
	c.must(write("waiter", path, time.Hour))
	shard := f.nodes[0].logOf(wire.HomeOf("waiter", f.nodes[0].cfg.GroupCount)).shard // where it is told of its end
	first := f.listen(1, 0, shard)
	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "waiter"}) // KILLED
	f.until("the first run of the node hears of it", func() bool { got, _ := first.heard(); return len(got) == 1 })

	if err := f.nodes[1].Close(0); err != nil {
		t.Fatal(err)
	}
	w.set("n-1", true) // so that it is not fed before somebody listens: with luck it is so within feedEvery anyhow
	n := f.start(1)
	var mu sync.Mutex
	tapped, missed := 0, 0
	untap := n.Tap(func(engine.Event, wire.Position) {
		mu.Lock()
		defer mu.Unlock()
		tapped++
	}, func() {
		mu.Lock()
		defer mu.Unlock()
		missed++
	})
	defer untap()
	c.must(write("waiter", path, time.Hour)) // the owner has a lock again, which nobody kills
	e, other, back := new(ear), new(ear), new(ear)
	for _, sub := range []*wire.Subscription{
		{Owner: "waiter", Number: 1, Sink: e}, {Owner: "other", Number: 2, Sink: other},
		{Owner: "waiter", Number: 3, Sink: back, From: []wire.Position{n.hub.mark}},
	} {
		if _, err := n.Subscribe(sub); err != nil {
			t.Fatal(err)
		}
	}
	w.set("n-1", false)
	f.until("the node is fed", func() bool { return n.hub.where(shard).Index > 0 })
	if got, _ := back.heard(); len(got) != 1 {
		t.Fatalf("who goes on from a cursor is told %q", got)
	}
	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "waiter"})
	f.until("the tap is told what comes, and so all are", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return tapped > 0
	})
	if got, gaps := e.heard(); len(got) != 1 || gaps != 1 {
		t.Errorf("who subscribed from now on is told %q and of %d gaps, want one event and one gap", got, gaps)
	}
	if got, gaps := other.heard(); len(got) > 0 || gaps != 0 {
		t.Errorf("whose owner there was nothing of is told %q and of %d gaps", got, gaps)
	}
	if got, gaps := back.heard(); len(got) != 2 || gaps != 0 {
		t.Errorf("who goes on from a cursor is told %q and of %d gaps, want both events", got, gaps)
	}
	mu.Lock()
	defer mu.Unlock()
	if tapped != 1 || missed != 1 {
		t.Errorf("a tap is told %d events, and %d times that it missed some", tapped, missed)
	}
}
