package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// lateKill is a node that was not fed a log and is given a replica of it in the middle of its run. The replica
// applies entry 50, which is old: who subscribed is told of a gap, and looks, when entry 121 is not committed yet.
// That kills its owner, and is applied and taken for the past.
type lateKill struct {
	h      *events.Hub
	conn   *observed.Connection // its first subscription is for the owner
	tapped []string
}

// killedLate answers one. The entry is applied before it was looked how far the log reaches, or with tail afterwards:
// then it was received, though not committed, when it was looked.
func killedLate(t *testing.T, tail bool) *lateKill {
	const shard = rows.FirstLog
	b := newBare(t, shard, replica.DefaultLimits())
	n, l := b.n, b.l
	k := &lateKill{h: n.hub, conn: new(observed.Connection)}
	n.hub.Tap(func(engine.Event, wire.Position) { k.tapped = append(k.tapped, "event") },
		func() { k.tapped = append(k.tapped, "missed") })
	applied := func() {
		n.hub.Publish(shard, 50, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/old"}}, true)
		f := &k.conn.Subs[0]
		if want := []string{"gap"}; !slices.Equal(f.Told, want) || f.End.Index != 50 || len(k.tapped) != 1 {
			t.Fatalf("with entry 50 a subscriber is told %q, up to %v, and a tap %q", f.Told, f.End, k.tapped)
		}
		n.hub.Publish(shard, 121, []engine.Event{{Owner: "waiter", Kind: wire.EventKilled, Path: "h:/a/killed"}}, true)
	}
	raft := &hastyRaft{joinerRaft{last: 121}, applied}
	if tail {
		raft.meanwhile = func() {}
	}
	l.raft = raft
	n.logs = map[uint64]*shardLog{shard: l}
	n.id.Replicas = map[uint64]datadir.Replica{shard: {ID: 2, Joined: true}}
	for i, owner := range []string{"waiter", "other"} {
		sub := &wire.Subscription{Owner: owner, Number: uint64(i), Sink: &k.conn.Subs[i], Conn: k.conn}
		if _, err := n.Subscribe(sub); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.addReplica(shard, 2); err != nil {
		t.Fatal(err)
	}
	if tail {
		applied()
	}
	return k
}

// TestKilledBehindTheGap: what is passed over after who subscribed was told of a gap may have come to be after he
// looked. He is told of another gap, which ends behind it, with the next progress or before a later event of the log,
// and so are taps.
func TestKilledBehindTheGap(t *testing.T) {
	const shard = rows.FirstLog
	for name, tail := range map[string]bool{"before it is looked": false, "in the tail": true} {
		t.Run(name, func(t *testing.T) {
			k := killedLate(t, tail)
			k.h.Progress()
			f := &k.conn.Subs[0]
			if want := []string{"gap", "gap", "progress"}; !slices.Equal(f.Told, want) || f.End.Index != 121 {
				t.Errorf("with the next progress it is told %q, and the last gap ends at %v", f.Told, f.End)
			}
			if want := []string{"missed", "missed"}; !slices.Equal(k.tapped, want) {
				t.Errorf("with the next progress a tap is told %q", k.tapped)
			}
			if told := k.conn.Subs[1].Told; !slices.Equal(told, []string{"progress"}) {
				t.Errorf("whose owner there was nothing of is told %q", told)
			}

			k = killedLate(t, tail)
			f = &k.conn.Subs[0]
			f.Cursor = k.h.Cursor() // so that there is one to keep the place of the event in
			k.h.Publish(shard, 122, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/new"}}, true)
			k.h.Progress()
			if want := []string{"gap", "gap", "h:/a/new", "progress"}; !slices.Equal(f.Told, want) ||
				f.End.Index != 121 {
				t.Errorf("with the next event it is told %q, and the last gap ends at %v", f.Told, f.End)
			}
			if want := []string{"missed", "missed", "event"}; !slices.Equal(k.tapped, want) {
				t.Errorf("with the next event a tap is told %q", k.tapped)
			}
		})
	}
}
