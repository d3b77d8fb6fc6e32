package events

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestOneGapForEachLog: a node that begins to be fed two logs at a time tells a subscriber once of each that it may
// have missed something, not with each event of the past.
func TestOneGapForEachLog(t *testing.T) {
	h := New(8192)
	e := new(observed.Events)
	if h.Subscribe(&wire.Subscription{Owner: "o", Number: 1, Sink: e}); len(h.subs.all) != 1 {
		t.Fatal("it has not subscribed")
	}
	missed := 0
	defer h.Tap(func(engine.Event, wire.Position) { t.Error("a tap is told of the past") }, func() { missed++ })()
	const events = 1000
	for _, log := range []uint64{rows.FirstLog, rows.FirstLog + 1} {
		h.FedFrom(log, events)
	}
	for i := range uint64(events) { // as the frames of two connections come
		for _, log := range []uint64{rows.FirstLog, rows.FirstLog + 1} {
			h.Publish(log, i+1, []engine.Event{{Owner: "o", Kind: wire.EventGrant, Path: "h:/a/x"}}, true)
		}
	}
	if got, gaps := e.Told(); len(got) > 0 || gaps > 2 || gaps == 0 {
		t.Errorf("%d old events of each of two logs: it is told %d events, and %d times of a gap, want at most 2",
			events, len(got), gaps)
	}
	if missed != 2 {
		t.Errorf("a tap is told %d times that it missed something, want once of each log", missed)
	}
}

// cursors is an ear that keeps where gaps end.
type cursors struct {
	observed.Events
	ends []wire.Position
}

func (c *cursors) Gap(_ *wire.Subscription, cursor []wire.Position) {
	c.ends = append(c.ends, cursor...)
}

// TestTheGapOfThePast: a subscriber that is told that it may have missed what there was before the feed is told so up
// to the last of it, and not only up to the first: that before what comes next, which is told.
func TestTheGapOfThePast(t *testing.T) {
	const log = rows.FirstLog
	h := New(8192)
	c := new(cursors)
	h.Subscribe(&wire.Subscription{Owner: "o", Number: 1, Sink: c})
	h.FedFrom(log, 3)
	killed := []engine.Event{{Owner: "o", Kind: wire.EventKilled}}
	for index := range uint64(4) {
		h.Publish(log, index+1, killed, true)
	}
	if last := (wire.Position{Log: log, Index: 3, Ordinal: 1}); len(c.ends) == 0 || c.ends[len(c.ends)-1] != last {
		t.Errorf("the gap ends at %v, want %v", c.ends, last)
	}
	if len(c.Events.Got) != 1 {
		t.Errorf("what comes after it is told as %q", c.Events.Got)
	}
}
