package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8FedAnewToldOfThePast: a node that is fed starts anew, and the first feed brings all that its source keeps,
// however old: who subscribed "from now on" is told KILLED of an hour ago, and a tap (the SSE log) hears again what the
// earlier run of the node told it. contract.md section 12: "gRPC Subscribe: from now on"; "a restart of the node shows as
// a gap, never as a repeat"; PROTOCOL subscribe: "delivers the owner's events from now on".
func TestAdv8FedAnewToldOfThePast(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := apart(t, func(_ int, c *Config) { c.Faults = w })
	c := f.rigOn(0).session()
	path := "h:/stale/x"
	c.must(write("waiter", path, time.Hour))
	shard := f.nodes[0].logOf(f.nodes[0].groupOf("h:/stale")).shard
	first := f.listen(1, 0, shard)
	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "waiter"}) // KILLED
	f.until("the first run of the node hears of it", func() bool { got, _ := first.heard(); return len(got) == 1 })

	if err := f.nodes[1].Close(0); err != nil {
		t.Fatal(err)
	}
	w.set("n-1", true) // so that it is not fed before somebody listens: with luck it is so within feedEvery anyhow
	n := f.start(1)
	var mu sync.Mutex
	tapped := 0
	untap := n.Tap(func(e engine.Event, _ wire.Position) {
		mu.Lock()
		defer mu.Unlock()
		tapped++
	}, func() {})
	defer untap()
	c.must(write("waiter", path, time.Hour)) // the owner has a lock again, which nobody kills
	e := new(ear)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	w.set("n-1", false)
	f.until("the node is fed", func() bool { return n.hub.where(shard).Index > 0 })
	time.Sleep(500 * time.Millisecond)
	got, _ := e.heard()
	mu.Lock()
	defer mu.Unlock()
	if len(got) > 0 {
		t.Errorf("who subscribed after it, from now on, is told %q", got)
	}
	if tapped > 0 {
		t.Errorf("a tap is told %d events that the node's earlier run told already", tapped)
	}
}
