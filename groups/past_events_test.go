package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// lateKill is a node that was not fed a log and is given a replica of it in the middle of its run. The replica
// applies entry 50, which is old: who subscribed is told of a gap, and looks, when entry 121 is not committed yet.
// That kills its owner, and is applied and taken for the past.
type lateKill struct {
	h      *hub
	conn   *both // its first subscription is for the owner
	tapped []string
}

// killedLate answers one. The entry is applied before it was looked how far the log reaches, or with tail afterwards:
// then it was received, though not committed, when it was looked.
func killedLate(t *testing.T, tail bool) *lateKill {
	const shard = replica.FirstLogShard
	b := newBare(t, shard, replica.DefaultLimits())
	n, l := b.n, b.l
	k := &lateKill{h: n.hub, conn: new(both)}
	n.hub.tap(func(engine.Event, wire.Position) { k.tapped = append(k.tapped, "event") },
		func() { k.tapped = append(k.tapped, "missed") })
	applied := func() {
		n.hub.Publish(shard, 50, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/old"}}, true)
		f := &k.conn.subs[0]
		if want := []string{"gap"}; !slices.Equal(f.told, want) || f.gap.Index != 50 || len(k.tapped) != 1 {
			t.Fatalf("with entry 50 a subscriber is told %q, up to %v, and a tap %q", f.told, f.gap, k.tapped)
		}
		n.hub.Publish(shard, 121, []engine.Event{{Owner: "waiter", Kind: wire.EventKilled, Path: "h:/a/killed"}}, true)
	}
	raft := &hastyRaft{joinerRaft{last: 121}, applied}
	if tail {
		raft.meanwhile = func() {}
	}
	l.raft = raft
	n.logs = map[uint64]*shardLog{shard: l}
	n.id.Seats = map[uint64]seat{shard: {Replica: 2, Joined: true}}
	for i, owner := range []string{"waiter", "other"} {
		sub := &wire.Subscription{Owner: owner, Number: uint64(i), Sink: &k.conn.subs[i], Conn: k.conn}
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
	const shard = replica.FirstLogShard
	for name, tail := range map[string]bool{"before it is looked": false, "in the tail": true} {
		t.Run(name, func(t *testing.T) {
			k := killedLate(t, tail)
			k.h.progress()
			f := &k.conn.subs[0]
			if want := []string{"gap", "gap", "progress"}; !slices.Equal(f.told, want) || f.gap.Index != 121 {
				t.Errorf("with the next progress it is told %q, and the last gap ends at %v", f.told, f.gap)
			}
			if want := []string{"missed", "missed"}; !slices.Equal(k.tapped, want) {
				t.Errorf("with the next progress a tap is told %q", k.tapped)
			}
			if told := k.conn.subs[1].told; !slices.Equal(told, []string{"progress"}) {
				t.Errorf("whose owner there was nothing of is told %q", told)
			}

			k = killedLate(t, tail)
			f = &k.conn.subs[0]
			f.cursor = k.h.cursor() // so that there is one to keep the place of the event in
			k.h.Publish(shard, 122, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/new"}}, true)
			k.h.progress()
			if want := []string{"gap", "gap", "h:/a/new", "progress"}; !slices.Equal(f.told, want) || f.gap.Index != 121 {
				t.Errorf("with the next event it is told %q, and the last gap ends at %v", f.told, f.gap)
			}
			if want := []string{"missed", "missed", "event"}; !slices.Equal(k.tapped, want) {
				t.Errorf("with the next event a tap is told %q", k.tapped)
			}
		})
	}
}

// TestKilledAfterTheGapsEnd: who was told of a gap and goes on from where it ends, at another node, is told what comes
// then: the gap does not end behind what was not applied yet, also if that counts as the past.
func TestKilledAfterTheGapsEnd(t *testing.T) {
	const log = replica.FirstLogShard
	h, there := newHub(8192), newHub(8192)
	f := new(follower)
	h.subscribe(&wire.Subscription{Owner: "o", Sink: f})
	h.joins(log)(121)
	for i, path := range []string{"h:/a/old", "h:/a/killed"} {
		event := []engine.Event{{Owner: "o", Kind: wire.EventKilled, Path: path}}
		if i == 0 {
			h.Publish(log, 50, event, true)
		}
		there.Publish(log, []uint64{50, 121}[i], event, true)
	}
	back := &follower{cursor: slices.Clone(f.cursor)}
	there.subscribe(&wire.Subscription{Owner: "o", Sink: back, From: slices.Clone(f.cursor)})
	if want := []string{"h:/a/killed"}; len(f.told) != 1 || !slices.Equal(back.told, want) {
		t.Errorf("it was told %q, and comes back with %v: it is told %q", f.told, f.cursor, back.told)
	}
}

// TestProgressBesideThePast: of the subscriptions of one connection none takes a cursor from beyond what another one
// was not told of yet.
func TestProgressBesideThePast(t *testing.T) {
	k := killedLate(t, true)
	c := k.h.subs.conns[k.conn]
	if c.ready(k.h.gaps) {
		t.Error("a connection may be told progress while something was passed over")
	}
	k.h.tellGaps()
	if !c.ready(k.h.gaps) {
		t.Error("a connection may not be told progress after the gap")
	}
	const shard, other = replica.FirstLogShard, replica.FirstLogShard + 1
	k.h.joins(other)(121)
	k.h.Publish(other, 50, granted("waiter"), true) // the first of another log: it is told at once
	k.h.Publish(other, 51, granted("waiter"), true)
	k.h.Publish(shard, 121, granted("waiter", "waiter"), true) // there is more of the entry
	if c.ready(k.h.gaps) {
		t.Error("a connection may be told progress while something of two logs was passed over")
	}
	k.h.tellGaps()
	if !c.ready(k.h.gaps) {
		t.Error("a connection may not be told progress after the gap in two logs")
	}
	k.h.Publish(other, 52, granted("waiter"), true)
	for sub := range k.h.subs.of {
		if sub.Owner == "waiter" {
			k.h.unsubscribe(sub)
		}
	}
	if !c.ready(k.h.gaps) {
		t.Error("a connection may not be told progress after that subscription has ended")
	}
}

// TestFewGapsOfThePast: much of the past is passed over, while another log goes on. Who subscribed is told of a gap
// with the first of it, and of one with each progress, not with each event of either log; and of none once the past
// is over. So are taps.
func TestFewGapsOfThePast(t *testing.T) {
	const log, other, events = replica.FirstLogShard, replica.FirstLogShard + 1, 1000
	h := newHub(8192)
	e, missed := new(ear), 0
	h.tap(func(engine.Event, wire.Position) {}, func() { missed++ })
	h.subscribe(&wire.Subscription{Owner: "o", Sink: e})
	h.opened(other, 1)
	h.joins(log)(2 * events)
	publish := func(to uint64) {
		for i := h.where(log).Index; i < to; i++ {
			h.Publish(log, i+1, granted("o"), true)
			h.Publish(other, i+2, granted("o"), true)
		}
	}
	check := func(what string, events, want int) {
		t.Helper()
		if got, gaps := e.heard(); gaps != want || missed != want || len(got) != events {
			t.Errorf("%s: it is told %d events and of %d gaps, and a tap %d times that it missed some; want %d and %d",
				what, len(got), gaps, missed, events, want)
		}
	}
	publish(events)
	check("half of it", events, 1)
	h.progress()
	check("progress", events, 2)
	publish(2 * events)
	check("all of it", 2*events, 2)
	if over := h.subs.all[0].over; len(over) != 1 {
		t.Errorf("%d notes are kept of one log", len(over))
	}
	h.progress()
	check("progress after it", 2*events, 3)
	h.progress()
	publish(2*events + 10)
	h.progress()
	check("what comes then", 2*events+20, 3)
}
