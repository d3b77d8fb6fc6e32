package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestEventsResume gives a subscriber that comes back with its cursor every event
// it missed, over a restart too, and tells it when it cannot.
func TestEventsResume(t *testing.T) {
	r := newRig(t, func(c *Config) { c.EventBuffer = 4 })
	c := r.session()
	got := &eventLog{}
	sub := &wire.Subscription{Owner: "a", Sink: got}
	cursor, err := r.node.Subscribe(sub)
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(n int) {
		for range n {
			c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "a"})
		}
		r.told()
	}
	revoke(2)
	r.node.Unsubscribe(sub)
	revoke(2)
	if len(got.at) != 2 || got.gaps != 0 {
		t.Fatalf("live: %+v", got)
	}
	resume := func(from []wire.Position) *eventLog {
		t.Helper()
		l := &eventLog{}
		if _, err := r.node.Subscribe(&wire.Subscription{Owner: "a", Sink: l, From: from}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := resume(cursor); len(l.at) != 4 || l.gaps != 0 {
		t.Fatalf("from the start: %+v", l)
	}
	after := append([]wire.Position(nil), cursor...)
	for i := range after {
		if after[i].Log == got.at[1].Log {
			after[i] = got.at[1]
		}
	}
	if l := resume(after); len(l.at) != 2 || l.gaps != 0 {
		t.Fatalf("from the second event: %+v", l)
	}
	r.powerLoss() // nothing was checkpointed: the events are born again from the log
	if l := resume(after); len(l.at) != 2 || l.gaps != 0 {
		t.Fatalf("after a power loss: %+v", l)
	}
	revoke(12) // more than are kept
	if l := resume(after); l.gaps != 1 {
		t.Fatalf("from beyond what is kept: %+v", l)
	}
}

// TestEventsAreToldOnce: entries that are applied again after a restart tell nobody
// but who goes on from a cursor.
func TestEventsAreToldOnce(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	revoke := func() {
		c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "a"})
		r.told()
	}
	c.must(write("a", "h:/a/1", time.Hour))
	revoke()
	told, fresh := 0, &eventLog{}
	sub := &wire.Subscription{Owner: "a", Sink: fresh}
	var untap func()
	r.opened = func(n *Node) {
		untap = n.Tap(func(engine.Event, wire.Position) { told++ }, func() {})
		if _, err := n.Subscribe(sub); err != nil {
			t.Error(err)
		}
	}
	r.powerLoss() // nothing was checkpointed: the event is born again from the log
	c = r.session()
	revoke()
	untap()
	r.node.Unsubscribe(sub)
	if told != 1 || len(fresh.at) != 1 {
		t.Errorf("after a restart one event happened; a tap was told %d, a subscriber %d", told, len(fresh.at))
	}
}

// told waits until the events of what was answered are told: an entry's answers come
// first, under the same lock, and here nothing holds them back until its end.
func (r *rig) told() { r.digests() }

type eventLog struct {
	at   []wire.Position
	gaps int
}

func (l *eventLog) Deliver(_ *wire.Subscription, _ wire.EventKind, _, _ string, _ int64, at wire.Position) {
	l.at = append(l.at, at)
}

func (l *eventLog) Progress(*wire.Subscription, []wire.Position) {}

func (l *eventLog) Gap(*wire.Subscription, []wire.Position) { l.gaps++ }
