package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv12FedWhileItJoins: the feed of a log begins while a replica of it is being started: it says that all up to entry 121 is the past
// (frameEvents with past), and then tells of that. hub.joins has set past to the highest by then, so fedFrom does nothing; and when the
// replica is started, whose log has nothing yet as its leader has sent nothing (bounds: 0), that is what past is set to. What the
// feed goes on to tell of the past is told to who subscribed without a cursor as if it happened now, and no gap is told.
func TestAdv12FedWhileItJoins(t *testing.T) {
	const shard = firstLogShard
	b := newBare(t, shard, defaultLimits())
	n, l := b.n, b.m.driver
	l.raft = &hastyRaft{joinerRaft{last: 0}, func() { n.hub.fedFrom(shard, 121) }}
	n.logs = map[uint64]*shardLog{shard: l}
	n.id.Seats = map[uint64]seat{shard: {Replica: 2, Joined: true}}
	e := new(ear)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	if err := n.addReplica(shard, 2); err != nil {
		t.Fatal(err)
	}
	n.hub.publish(shard, 50, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/old"}})
	if got, gaps := e.heard(); gaps != 1 || len(got) > 0 {
		t.Errorf("a subscriber without a cursor is told %q, which was in the log when its feed began, and of %d gaps", got, gaps)
	}
}
