package events

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledAfterTheGapsEnd: who was told of a gap and goes on from where it ends, at another node, is told what comes
// then: the gap does not end behind what was not applied yet, also if that counts as the past.
func TestKilledAfterTheGapsEnd(t *testing.T) {
	const log = rows.FirstLog
	h, there := New(8192), New(8192)
	f := new(observed.Follower)
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: f})
	h.Joins(log)(121)
	for i, path := range []string{"h:/a/old", "h:/a/killed"} {
		event := []engine.Event{{Owner: "o", Kind: wire.EventKilled, Path: path}}
		if i == 0 {
			h.Publish(log, 50, event, true)
		}
		there.Publish(log, []uint64{50, 121}[i], event, true)
	}
	back := &observed.Follower{Cursor: slices.Clone(f.Cursor)}
	there.Subscribe(&wire.Subscription{Owner: "o", Sink: back, From: slices.Clone(f.Cursor)})
	if want := []string{"h:/a/killed"}; len(f.Told) != 1 || !slices.Equal(back.Told, want) {
		t.Errorf("it was told %q, and comes back with %v: it is told %q", f.Told, f.Cursor, back.Told)
	}
}

// TestFewGapsOfThePast: much of the past is passed over, while another log goes on. Who subscribed is told of a gap
// with the first of it, and of one with each progress, not with each event of either log; and of none once the past
// is over. So are taps.
func TestFewGapsOfThePast(t *testing.T) {
	const log, other, events = rows.FirstLog, rows.FirstLog + 1, 1000
	h := New(8192)
	e, missed := new(observed.Events), 0
	h.Tap(func(engine.Event, wire.Position) {}, func() { missed++ })
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: e})
	h.Opened(other, 1)
	h.Joins(log)(2 * events)
	publish := func(to uint64) {
		for i := h.Where(log).Index; i < to; i++ {
			h.Publish(log, i+1, granted("o"), true)
			h.Publish(other, i+2, granted("o"), true)
		}
	}
	check := func(what string, events, want int) {
		t.Helper()
		if got, gaps := e.Told(); gaps != want || missed != want || len(got) != events {
			t.Errorf("%s: it is told %d events and of %d gaps, and a tap %d times that it missed some; want %d and %d",
				what, len(got), gaps, missed, events, want)
		}
	}
	publish(events)
	check("half of it", events, 1)
	h.Progress()
	check("progress", events, 2)
	publish(2 * events)
	check("all of it", 2*events, 2)
	if over := h.subs.all[0].over; len(over) != 1 {
		t.Errorf("%d notes are kept of one log", len(over))
	}
	h.Progress()
	check("progress after it", 2*events, 3)
	h.Progress()
	publish(2*events + 10)
	h.Progress()
	check("what comes then", 2*events+20, 3)
}

// lateKill is a hub that was not told of a log, of which there is a replica from some moment on. What entry 121 tells
// is taken for the past: who subscribed looks when it is not applied yet.
type lateKill struct {
	h    *Hub
	conn *observed.Connection // its first subscription is for the owner of the event
}

func killedLate() *lateKill {
	const shard = 2
	k := &lateKill{h: New(10), conn: new(observed.Connection)}
	for i, owner := range []string{"waiter", "other"} {
		k.h.Subscribe(&wire.Subscription{Owner: owner, Number: uint64(i), Sink: &k.conn.Subs[i], Conn: k.conn})
	}
	since := k.h.Joins(shard)
	since(121)
	k.h.Publish(shard, 50, []engine.Event{{Owner: "waiter", Kind: wire.EventGrant, Path: "h:/a/old"}}, true)
	k.h.Publish(shard, 121, []engine.Event{{Owner: "waiter", Kind: wire.EventKilled, Path: "h:/a/killed"}}, true)
	return k
}

// TestProgressBesideThePast: of the subscriptions of one connection none takes a cursor from beyond what another one
// was not told of yet.
func TestProgressBesideThePast(t *testing.T) {
	k := killedLate()
	c := k.h.subs.conns[k.conn]
	if c.ready(k.h.gaps) {
		t.Error("a connection may be told progress while something was passed over")
	}
	k.h.tellGaps()
	if !c.ready(k.h.gaps) {
		t.Error("a connection may not be told progress after the gap")
	}
	const shard, other = uint64(2), uint64(3)
	k.h.Joins(other)(121)
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
			k.h.Unsubscribe(sub)
		}
	}
	if !c.ready(k.h.gaps) {
		t.Error("a connection may not be told progress after that subscription has ended")
	}
}
