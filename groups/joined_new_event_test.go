package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestNewEventWhileItJoins: a replica of a log is being started at a node that was not fed it, and the feed of it
// begins meanwhile: it says that all up to entry 121 is the past, tells of that, and so the subscriber is told of a
// gap: it looks at its locks then. After that it is granted something, in entry 122: it is told of the grant, or of
// another gap.
func TestNewEventWhileItJoins(t *testing.T) {
	const shard = rows.FirstLog
	b := newBare(t, shard, replica.DefaultLimits())
	n, l := b.n, b.l
	e := new(observed.Events)
	granted := func(path string) []engine.Event {
		return []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: path}}
	}
	l.raft = &hastyRaft{joinerRaft{last: 0}, func() {
		n.hub.FedFrom(shard, 121)
		n.hub.Publish(shard, 50, granted("h:/a/old"), true)
		if _, gaps := e.Told(); gaps != 1 {
			t.Fatalf("told of %d gaps, not of one", gaps)
		}
		n.hub.Publish(shard, 122, granted("h:/a/new"), true) // comes to be now
	}}
	n.logs = map[uint64]*shardLog{shard: l}
	n.id.Replicas = map[uint64]datadir.Replica{shard: {ID: 2, Joined: true}}
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	if err := n.addReplica(shard, 2); err != nil {
		t.Fatal(err)
	}
	n.hub.Publish(shard, 123, granted("h:/a/newer"), true)
	if got, gaps := e.Told(); gaps < 2 && !slices.Contains(got, "GRANT h:/a/new 0") {
		t.Errorf("told of %d gap, before h:/a/new was granted, and of %q", gaps, got)
	}
}
