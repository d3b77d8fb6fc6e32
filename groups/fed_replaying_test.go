package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestFedByOneThatReplays: a node that was started itself, and still applies what was in its log before, tells its own
// subscribers nothing of that. No more does a node that it begins to feed: both are told what happens from now on.
func TestFedByOneThatReplays(t *testing.T) {
	t.Parallel()
	path := "h:/stale/x"
	f := startedAnew(t, path, wire.OpRequestRevoke)
	n, shard := f.again, f.shard
	e := new(observed.Events)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	// The source: a run of it that began with more in the log than it has applied, as startReplica says so.
	source := f.nodes[0].hub
	at := source.Where(shard).Index
	own := new(observed.Events)
	if _, err := f.nodes[0].Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: own}); err != nil {
		t.Fatal(err)
	}
	source.Began(shard, at+10_000)
	f.fed()
	// It comes to an old entry, in which the owner was killed; and then to one of now.
	killed := []engine.Event{{Owner: "waiter", Kind: wire.EventKilled, Path: path}}
	source.Publish(shard, at+9_000, killed, true)
	source.Publish(shard, at+10_001, []engine.Event{{Owner: "waiter", Kind: wire.EventRevoke, Path: path}}, true)
	f.until("the node has heard of all", func() bool { return n.hub.Where(shard).Index > at+10_000 })
	if got, _ := own.Told(); len(got) != 1 {
		t.Fatalf("who subscribed at the source is told %q", got)
	}
	if got, gaps := e.Told(); len(got) != 1 {
		t.Errorf("who subscribed from now on at the node that is fed is told %q, and of %d gaps: want what comes alone",
			got, gaps)
	}
}
