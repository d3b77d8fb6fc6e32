package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// joinerRaft is the raft of a replica that joins a log at work: by the time that Start returns entries come, and so its
// log reaches as far as the leader has sent.
type joinerRaft struct {
	raft.Log
	last uint64
}

func (*joinerRaft) Start(datadir.Replica, *replica.Machine) error { return nil }

func (j *joinerRaft) Bounds() (first, last uint64, m raft.Membership, err error) {
	return 1, j.last, m, nil
}

// TestJoinerHearsOfNewEntries: a node is given a replica of a log in the middle of its run. Events of entries that raft
// got before it was looked how far the log reaches are told to who subscribed before, as their feed has not told them;
// or else, if there was none, that something was missed.
func TestJoinerHearsOfNewEntries(t *testing.T) {
	const shard = rows.FirstLog
	for fed, want := range map[uint64]struct {
		got  []string
		gaps int
	}{
		120: {[]string{"GRANT h:/a/x 0", "GRANT h:/a/y 0"}, 0},
		0:   {[]string{"GRANT h:/a/y 0"}, 1},
	} {
		b := newBare(t, shard, replica.DefaultLimits())
		n := b.n
		l := b.l
		l.raft = &joinerRaft{last: 121}
		n.logs = map[uint64]*shardLog{shard: l}
		n.id.Replicas = map[uint64]datadir.Replica{shard: {ID: 2, Joined: true}}
		granted := func(path string) []engine.Event {
			return []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: path}}
		}
		for index := uint64(1); index <= fed; index++ {
			n.hub.Publish(shard, index, nil, true)
		}
		e := new(observed.Events)
		if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
			t.Fatal(err)
		}
		if err := n.addReplica(shard, 2); err != nil {
			t.Fatal(err)
		}
		n.hub.Publish(shard, 121, granted("h:/a/x"), true) // was on its way to the replica already
		n.hub.Publish(shard, 122, granted("h:/a/y"), true)
		if got, gaps := e.Told(); !slices.Equal(got, want.got) || gaps != want.gaps {
			t.Errorf("fed up to %d, a subscriber is told %q and of %d gaps, want %q and %d", fed, got, gaps,
				want.got, want.gaps)
		}
	}
}

// hastyRaft is the raft of a replica that joins: something happens before Start returns, as its own goroutines may have
// it.
type hastyRaft struct {
	joinerRaft
	meanwhile func()
}

func (j *hastyRaft) Start(datadir.Replica, *replica.Machine) error {
	j.meanwhile()
	return nil
}

// TestJoinerHearsOfThePast: a node that was not fed a log is given a replica of it in the middle of its run. The
// replica applies an entry, or the feed begins, before it was looked how far the log reaches. What the log had before
// is the past all the same: who subscribed is told of a gap.
func TestJoinerHearsOfThePast(t *testing.T) {
	const shard = rows.FirstLog
	for name, one := range map[string]struct {
		last      uint64 // which the replica has when it is looked
		meanwhile func(h *events.Hub)
	}{
		"it applies at once":     {121, func(h *events.Hub) { h.Publish(shard, 1, nil, true) }},
		"the feed begins":        {0, func(h *events.Hub) { h.FedFrom(shard, 121) }},
		"the feed is not as far": {121, func(h *events.Hub) { h.FedFrom(shard, 40) }},
	} {
		b := newBare(t, shard, replica.DefaultLimits())
		n, l := b.n, b.l
		l.raft = &hastyRaft{joinerRaft{last: one.last}, func() { one.meanwhile(n.hub) }}
		n.logs = map[uint64]*shardLog{shard: l}
		n.id.Replicas = map[uint64]datadir.Replica{shard: {ID: 2, Joined: true}}
		e := new(observed.Events)
		if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
			t.Fatal(err)
		}
		if err := n.addReplica(shard, 2); err != nil {
			t.Fatal(err)
		}
		granted := func(path string) []engine.Event {
			return []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: path}}
		}
		n.hub.Publish(shard, 50, granted("h:/a/old"), true) // was in the log when the replica joined
		n.hub.Publish(shard, 122, granted("h:/a/new"), true)
		if got, gaps := e.Told(); gaps != 1 || !slices.Equal(got, []string{"GRANT h:/a/new 0"}) {
			t.Errorf("%s: a subscriber without a cursor is told %q and of %d gaps", name, got, gaps)
		}
	}
}
