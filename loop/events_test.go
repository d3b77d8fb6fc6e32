package loop_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// cursor is a subscription's cursor as a client keeps it.
type cursor []wire.Position

func (c cursor) moved(to wire.Position) cursor {
	for i := range c {
		if c[i].Log == to.Log {
			c[i] = to
			return c
		}
	}
	return append(c, to)
}

func TestEvents(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("events")
		path := ns + ":/n/x"
		p, other := join(t, addr), join(t, addr)
		res := p.must(subscribe(ns))
		at := cursor(res.List.Positions)
		if res.Count == 0 || len(at) == 0 {
			t.Fatalf("subscription %d from %v", res.Count, at)
		}
		event := func(p *peer, sub, number uint64, kind wire.EventKind) wire.Event {
			t.Helper()
			e := p.push(wire.PushEvent).event
			if e.Subscription != sub || e.Number != number || e.Kind != kind || e.Owner != ns {
				t.Errorf("event %+v, want number %d of %d: %v of %s", e, number, sub, kind, ns)
			}
			return e
		}
		other.must(write("other", path))
		if res := p.ask(write(ns, path)); res.Status != wire.StatusQueued {
			t.Fatalf("status %v", res.Status)
		}
		other.must(release("other", path))
		grant := event(p, res.Count, 1, wire.EventGrant)
		if grant.Path != path || grant.Namespace != ns+":/n" || grant.Token == 0 || grant.At.Log == 0 {
			t.Errorf("grant %+v", grant)
		}
		at = at.moved(grant.At)
		other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		event(p, res.Count, 2, wire.EventRevoke)
		p.hangUp()

		// From the grant's place on, the next connection gets what came after it: the
		// REVOKE again, and what happened meanwhile.
		other.must(&wire.Request{Op: wire.OpForceRelease, Owner: ns})
		again := join(t, addr)
		sub := again.must(subscribe(ns, at...)).Count
		event(again, sub, 1, wire.EventRevoke)
		event(again, sub, 2, wire.EventKilled)
		// From now on there is nothing.
		quiet := join(t, addr)
		other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		now := quiet.must(subscribe(ns)).Count
		event(again, sub, 3, wire.EventRevoke)
		again.must(&wire.Request{Op: wire.OpUnsubscribe, Target: sub})
		other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		event(quiet, now, 1, wire.EventRevoke)
		again.must(ping())
		for _, got := range again.pushes {
			if got.kind == wire.PushEvent {
				t.Errorf("event %+v after unsubscribe", got.event)
			}
		}
	})
}

// TestEventKinds: EXPIRED goes only to those who asked for it.
func TestEventKinds(t *testing.T) {
	s := serve(t, loop.Options{})
	p := join(t, s.tcp)
	ns := named("kinds")
	all := p.must(&wire.Request{Op: wire.OpSubscribe, Owner: ns, Kinds: wire.AllEvents}).Count
	some := p.must(subscribe(ns)).Count
	short := write(ns, ns+":/n/x")
	short.TTLMillis = 50
	p.must(short)
	if e := p.push(wire.PushEvent).event; e.Kind != wire.EventExpired || e.Subscription != all ||
		e.Namespace != ns+":/n" {
		t.Errorf("event %+v", e)
	}
	p.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
	for range 2 {
		if e := p.push(wire.PushEvent).event; e.Kind != wire.EventRevoke || e.Subscription == some && e.Number != 1 {
			t.Errorf("event %+v", e)
		}
	}
}

// TestProgress: a quiet subscription is told how far the logs got, so that resuming
// from there misses nothing.
func TestProgress(t *testing.T) {
	t.Parallel() // it waits for seconds
	s := serve(t, loop.Options{})
	p, other := join(t, s.tcp), join(t, s.tcp)
	ns := named("progress")
	from := cursor(p.must(subscribe(ns)).List.Positions)
	other.must(write("other", ns+":/n/x"))
	c := p.push(wire.PushProgress).progress.Cursor
	if len(c) != len(from) {
		t.Errorf("progress to %v, from %v", c, from)
	}
	again := join(t, s.tcp)
	sub := again.must(subscribe(ns, c...)).Count
	other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
	if e := again.push(wire.PushEvent).event; e.Kind != wire.EventRevoke || e.Subscription != sub || e.Number != 1 {
		t.Errorf("event %+v", e)
	}
}

// TestGap: a cursor from which on not everything is known is answered with a gap.
func TestGap(t *testing.T) {
	s := serve(t, loop.Options{})
	p := join(t, s.tcp)
	ns := named("gap")
	from := p.must(subscribe(ns)).List.Positions
	ahead := append([]wire.Position(nil), from...)
	ahead[0].Index += 1_000_000 // of a log that knows more than ours: another cluster's
	sub := p.must(subscribe(ns, ahead...)).Count
	if g := p.push(wire.PushGap).progress; g.Subscription != sub || len(g.Cursor) != len(from) {
		t.Errorf("gap %+v", g)
	}
}

// TestEventFlood: events that come faster than they can be sent end in an error and
// not in a hole: who reads gets all of them, in order, or is told goodbye.
func TestEventFlood(t *testing.T) {
	const events = 300
	g := besiege(t, loop.Options{Pushes: 32 << 10, Subscriptions: 256})
	ns := named("flood")
	maker := join(t, g.s.unix)
	start := maker.must(subscribe(ns)).List.Positions
	reqs := make([]*wire.Request, 0, events)
	for range events / 100 {
		reqs = reqs[:0]
		for range 100 {
			reqs = append(reqs, &wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		}
		for _, id := range maker.start(reqs...) {
			if res := maker.reply(id); res.Code != wire.OK {
				t.Fatal(res.Err())
			}
		}
	}
	// One replay fits, and is whole.
	p := join(t, g.s.unix)
	p.must(subscribe(ns, start...))
	for i := range events {
		if e := p.push(wire.PushEvent).event; e.Number != uint64(i)+1 {
			t.Fatalf("event %d has number %d", i+1, e.Number)
		}
	}
	// Many of them in one write do not.
	greedy := join(t, g.s.unix)
	many := make([]*wire.Request, 200)
	for i := range many {
		many[i] = subscribe(ns, start...)
	}
	greedy.start(many...)
	greedy.endedWith(wire.ResourceExhausted, fmt.Sprintf("more than %d bytes of events", 32<<10))
	p.must(ping())
	for _, p := range []*peer{p, maker, greedy} {
		p.hangUp()
	}
	g.over(32 << 20)
}
