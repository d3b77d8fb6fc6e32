package pathlockd

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// begun answers a subscribe: it has a number, and begins there.
func (p *peer) begun(a *asked, number uint64, at ...wire.Position) {
	p.reply(a.id, wire.OpSubscribe, &wire.Result{Count: number, List: &wire.List{Positions: at}})
}

// wantFrom wants a subscribe that goes on from there.
func (p *peer) wantFrom(from ...wire.Position) *asked {
	p.t.Helper()
	a := p.want(wire.OpSubscribe)
	if !slices.Equal(a.req.Positions, from) {
		p.t.Fatalf("subscribed from %v, want %v", a.req.Positions, from)
	}
	return a
}

// wantEvents wants those events of a subscription, and no more.
func wantEvents(t *testing.T, s *Subscription, want ...Event) {
	t.Helper()
	pass(0)
	for _, w := range want {
		w.Owner = s.Owner()
		if len(s.Events()) == 0 {
			t.Fatalf("no event, want %+v", w)
		}
		if e := <-s.Events(); e != w {
			t.Fatalf("event %+v, want %+v", e, w)
		}
	}
	if len(s.Events()) > 0 {
		t.Fatalf("event %+v, want none", <-s.Events())
	}
}

func at(index uint64) wire.Position { return wire.Position{Log: 2, Index: index} }

// TestCursorOfAnotherCluster: where a restored cluster has taken the place of the first,
// the subscription begins anew, and tells that it did once it is live.
func TestCursorOfAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.clientOf("first", WithKeepAlive(time.Hour))
		got := subscribing(c, "o")
		p.begun(p.wantFrom(), 1, at(1000))
		s := <-got
		p.Close()
		p = f.openOf("first")
		p.begun(p.wantFrom(at(1000)), 1, at(1000))
		p.event(wire.Event{Kind: wire.EventGrant, At: at(1001)})
		wantEvents(t, s, Event{Kind: wire.EventGrant})
		p.Close()
		p = f.openOf("second")
		a := p.wantFrom()
		wantEvents(t, s) // the look at the state that a gap asks for would come too early
		p.begun(a, 1, at(5))
		wantEvents(t, s, Event{Gap: true})
		p.event(wire.Event{Kind: wire.EventKilled, At: at(6)})
		wantEvents(t, s, Event{Kind: wire.EventKilled})
		p.Close()
		p = f.openOf("second") // whose cursor it has now
		p.begun(p.wantFrom(at(6)), 1, at(6))
		p.send(wire.AppendProgress(nil, wire.PushProgress,
			&wire.Progress{Subscription: 1, Cursor: []wire.Position{at(9)}}))
		wantEvents(t, s)
		p.Close()
		p = f.openOf("second")
		p.begun(p.wantFrom(at(9)), 1, at(9))
		wantEvents(t, s)
	})
}

// TestCursorIsRepeatedToAnotherCluster: a subscribe whose answer was lost comes to the
// other cluster as it was. Its answer is not taken.
func TestCursorIsRepeatedToAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.clientOf("first", WithKeepAlive(time.Hour))
		got := subscribing(c, "o")
		p.begun(p.wantFrom(), 1, at(1000))
		s := <-got
		p.Close()
		p = f.openOf("first")
		p.wantFrom(at(1000))
		p.Close()
		p = f.openOf("second")
		p.begun(p.wantFrom(at(1000)), 1, at(5))
		p.event(wire.Event{Kind: wire.EventGrant, At: at(1001)})
		if u := p.want(wire.OpUnsubscribe); u.req.Target != 1 {
			t.Fatalf("unsubscribed %d", u.req.Target)
		}
		a := p.wantFrom()
		wantEvents(t, s)
		p.begun(a, 2, at(6))
		wantEvents(t, s, Event{Gap: true})
		p.Close()
		p = f.openOf("second")
		p.begun(p.wantFrom(at(6)), 1, at(6))
		wantEvents(t, s)
	})
}

// TestCursorOfTooManyLogs: a subscription goes on without a cursor that no server takes.
func TestCursorOfTooManyLogs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		var all []wire.Position
		for log := range uint64(wire.MaxPositions + 1) {
			all = append(all, wire.Position{Log: log, Index: 1})
		}
		got := subscribing(c, "o")
		p.begun(p.wantFrom(), 1, all[1:]...)
		s := <-got
		p.Close()
		p = f.open()
		p.begun(p.wantFrom(all[1:]...), 1)
		p.event(wire.Event{Kind: wire.EventGrant, At: all[0]})
		wantEvents(t, s, Event{Kind: wire.EventGrant})
		p.Close()
		p = f.open()
		p.begun(p.wantFrom(), 1, all...)
		wantEvents(t, s, Event{Gap: true})
	})
}

// TestLocksInAnotherCluster: a lock is renewed there, and once more when its events are
// subscribed to again.
func TestLocksInAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.clientOf("first", WithKeepAlive(time.Hour))
		l := watchedLock(t, c, p)
		p.Close()
		p = f.openOf("second")
		p.ok(p.want(wire.OpRenew))
		p.ok(p.wantFrom())
		a := p.want(wire.OpRenew)
		must(t, l.Err())
		p.reply(a.id, wire.OpRenew, &wire.Result{Status: wire.StatusLost})
		pass(0)
		if err := l.Err(); !IsLost(err) {
			t.Fatalf("got %v, want that it is lost", err)
		}
	})
}

// TestAnotherClusterOnTheSameAddress: real servers. The second has fewer entries in its
// logs than the cursor says, so that nothing would be delivered behind it.
func TestAnotherClusterOnTheSameAddress(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	n := newNode(t)
	c := dial(t, n.addr)
	s, err := c.Subscribe(ctx, "o", wire.EventRevoke)
	must(t, err)
	next := func(what string) Event {
		t.Helper()
		select {
		case e := <-s.Events():
			return e
		case <-ctx.Done():
			t.Fatalf("%s: no event came", what)
			return Event{}
		}
	}
	for range 20 {
		must(t, c.RequestRevoke(ctx, "o"))
		if e := next("in the first cluster"); e.Kind != wire.EventRevoke {
			t.Fatalf("event %+v", e)
		}
	}
	first := n.node.ClusterID()
	n.stop(0)
	n.dir, n.raft = t.TempDir(), freeAddr(t)
	n.start(t)
	if e := next("at the beginning in the second cluster"); !e.Gap {
		t.Fatalf("event %+v, want a gap", e)
	}
	if id := c.ServerInfo().ClusterID; id == first || id != n.node.ClusterID() {
		t.Fatalf("the client is connected to cluster %s, after %s", id, first)
	}
	must(t, c.RequestRevoke(ctx, "o"))
	if e := next("in the second cluster"); e.Kind != wire.EventRevoke {
		t.Fatalf("event %+v", e)
	}
}
