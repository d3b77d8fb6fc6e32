package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// refed is two nodes, of which the first feeds the second. That was started anew after something happened to the
// owner "waiter", and is not fed again before it is joined: with luck it would be within feedEvery.
type refed struct {
	*localCluster
	c     *caller
	shard uint64 // where the owner is told of its end
	again *Node
	join  func()
}

// startedAnew answers them. The owner has a path, and op happened to it.
func startedAnew(t *testing.T, path string, op wire.Op) *refed {
	t.Helper()
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.Faults = w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second // a log without a leader is no gap so soon
	})
	r := &refed{localCluster: f, c: f.rigOn(0).session(), join: func() { w.set("n-1", false) }}
	r.c.must(write("waiter", path, time.Hour))
	r.shard = f.nodes[0].logOf(wire.HomeOf("waiter", f.nodes[0].cfg.GroupCount)).shard
	first := f.listen(1, 0, r.shard)
	r.c.must(&wire.Request{Op: op, Owner: "waiter"})
	f.until("the first run of the node hears of it", func() bool { got, _ := first.Told(); return len(got) == 1 })
	if err := f.nodes[1].Close(0); err != nil {
		t.Fatal(err)
	}
	w.set("n-1", true)
	r.again = f.start(1)
	return r
}

// fed waits until the node that was started anew is fed again.
func (r *refed) fed() {
	r.join()
	r.until("the node is fed", func() bool { return r.again.hub.Where(r.shard).Index > 0 })
}

// TestFedAnewHearsNoPast: a node that is fed starts anew, and the first feed brings all that its source keeps, however
// old. Who subscribed from now on is told none of that, nor is a tap, which heard it of the earlier run of the node;
// but of a gap, as it may have happened since. Who goes on from a cursor is told what came after that.
func TestFedAnewHearsNoPast(t *testing.T) {
	t.Parallel()
	path := "h:/stale/x"
	f := startedAnew(t, path, wire.OpForceRelease) // KILLED
	c, n := f.c, f.again
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
	e, other, back := new(observed.Events), new(observed.Events), new(observed.Events)
	for _, sub := range []*wire.Subscription{
		{Owner: "waiter", Number: 1, Sink: e}, {Owner: "other", Number: 2, Sink: other},
		{Owner: "waiter", Number: 3, Sink: back, From: []wire.Position{n.hub.Mark}},
	} {
		if _, err := n.Subscribe(sub); err != nil {
			t.Fatal(err)
		}
	}
	f.fed()
	if got, _ := back.Told(); len(got) != 1 {
		t.Fatalf("who goes on from a cursor is told %q", got)
	}
	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "waiter"})
	f.until("the tap is told what comes, and so all are", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return tapped > 0
	})
	if got, gaps := e.Told(); len(got) != 1 || gaps != 1 {
		t.Errorf("who subscribed from now on is told %q and of %d gaps, want one event and one gap", got, gaps)
	}
	if got, gaps := other.Told(); len(got) > 0 || gaps != 0 {
		t.Errorf("whose owner there was nothing of is told %q and of %d gaps", got, gaps)
	}
	if got, gaps := back.Told(); len(got) != 2 || gaps != 0 {
		t.Errorf("who goes on from a cursor is told %q and of %d gaps, want both events", got, gaps)
	}
	mu.Lock()
	defer mu.Unlock()
	if tapped != 1 || missed != 1 {
		t.Errorf("a tap is told %d events, and %d times that it missed some", tapped, missed)
	}
}
