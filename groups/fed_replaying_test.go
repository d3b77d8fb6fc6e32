package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestFedByOneThatReplays: a node that was started itself, and still applies what was in its log before, tells its own
// subscribers nothing of that. No more does a node that it begins to feed: both are told what happens from now on.
func TestFedByOneThatReplays(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.Faults = w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second // a log without a leader is no gap so soon
	})
	c := f.rigOn(0).session()
	path := "h:/stale/x"
	c.must(write("waiter", path, time.Hour))
	shard := f.nodes[0].logOf(wire.HomeOf("waiter", f.nodes[0].cfg.GroupCount)).shard
	f.listen(1, 0, shard) // the first run of the node
	c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "waiter"})
	if err := f.nodes[1].Close(0); err != nil {
		t.Fatal(err)
	}
	w.set("n-1", true)
	n := f.start(1)
	e := new(ear)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	// The source: a run of it that began with more in the log than it has applied, as startReplica says so.
	source := f.nodes[0].hub
	at := source.where(shard).Index
	own := new(ear)
	if _, err := f.nodes[0].Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: own}); err != nil {
		t.Fatal(err)
	}
	source.began(shard, at+10_000)
	w.set("n-1", false)
	f.until("the node is fed", func() bool { return n.hub.where(shard).Index > 0 })
	// It comes to an old entry, in which the owner was killed; and then to one of now.
	killed := []engine.Event{{Owner: "waiter", Kind: wire.EventKilled, Path: path}}
	source.publish(shard, at+9_000, killed)
	source.publish(shard, at+10_001, []engine.Event{{Owner: "waiter", Kind: wire.EventRevoke, Path: path}})
	f.until("the node has heard of all", func() bool { return n.hub.where(shard).Index > at+10_000 })
	if got, _ := own.heard(); len(got) != 1 {
		t.Fatalf("who subscribed at the source is told %q", got)
	}
	if got, gaps := e.heard(); len(got) != 1 {
		t.Errorf("who subscribed from now on at the node that is fed is told %q, and of %d gaps: want what comes alone", got, gaps)
	}
}
