package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// hastyRaft is the raft of a replica that joins: it applies its first entry before start returns, as its own goroutines may.
type hastyRaft struct {
	joinerRaft
	applies func()
}

func (j *hastyRaft) start(seat, *machine) error {
	j.applies()
	return nil
}

// TestJoinerAppliesAtOnce: a node that was not fed a log is given a replica of it in the middle of its run, which applies an entry
// before it was looked how far the log reaches. What the log had before is the past all the same: who subscribed is told of a gap.
func TestJoinerAppliesAtOnce(t *testing.T) {
	const shard = firstLogShard
	b := newBare(t, shard, defaultLimits())
	n, l := b.n, b.m.driver
	l.raft = &hastyRaft{joinerRaft{last: 121}, func() { n.hub.publish(shard, 1, nil) }}
	n.logs = map[uint64]*shardLog{shard: l}
	n.id.Seats = map[uint64]seat{shard: {Replica: 2, Joined: true}}
	e := new(ear)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	if err := n.addReplica(shard, 2); err != nil {
		t.Fatal(err)
	}
	granted := func(path string) []engine.Event {
		return []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: path}}
	}
	n.hub.publish(shard, 50, granted("h:/a/old")) // was in the log when the replica joined
	n.hub.publish(shard, 122, granted("h:/a/new"))
	if got, gaps := e.heard(); gaps != 1 || !slices.Equal(got, []string{"GRANT h:/a/new 0"}) {
		t.Errorf("a subscriber without a cursor is told %q and of %d gaps", got, gaps)
	}
}
