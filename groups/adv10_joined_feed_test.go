package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// adv10Joiner is the raft of a replica that joins a log at work: by the time that start returns entries come, and so its
// log reaches as far as the leader has sent.
type adv10Joiner struct {
	raftLog
	last uint64
}

func (*adv10Joiner) start(seat, *machine) error { return nil }

func (j *adv10Joiner) bounds() (first, last uint64, m membership, err error) {
	return 1, j.last, m, nil
}

// TestAdv10JoinerHearsOfNewEntries: a node that is fed a log is given a replica of it in the middle of its run. What its
// raft log reached when startReplica looks, after raft has been started, is taken for what was there when the run began (hub.began):
// events of entries that came since raft was started, of which no feed has told yet, are withheld from who subscribed
// from now on, without a gap. PROTOCOL.md, subscribe: "delivers the owner's events from now on", "nothing pushed may be left
// out"; contract.md section 12: "never silently skipped".
func TestAdv10JoinerHearsOfNewEntries(t *testing.T) {
	const shard = firstLogShard
	b := newBare(t, shard, defaultLimits())
	n := b.n
	l := b.m.driver
	l.raft = &adv10Joiner{last: 121}
	n.logs = map[uint64]*shardLog{shard: l}
	granted := func(path string) []engine.Event {
		return []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: path}}
	}
	for index := uint64(1); index <= 120; index++ { // as its feed tells it
		n.hub.publish(shard, index, nil)
	}
	e := new(ear)
	if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	if err := n.startReplica(shard, seat{Replica: 2, Joined: true}, false); err != nil { // as addReplica
		t.Fatal(err)
	}
	n.hub.publish(shard, 121, granted("h:/a/x")) // was on its way to the replica already
	n.hub.publish(shard, 122, granted("h:/a/y"))
	if got, gaps := e.heard(); len(got) != 2 && gaps == 0 {
		t.Errorf("who subscribed before the grants is told %q, and of no gap", got)
	}
}
