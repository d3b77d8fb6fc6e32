package pathlockd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// event sends an event of subscription 1.
func (p *peer) event(e wire.Event) {
	if e.Subscription == 0 {
		e.Subscription = 1
	}
	p.send(wire.AppendEvent(nil, &e))
}

// subscribing subscribes in the background.
func subscribing(c *Client, owner string, kinds ...wire.EventKind) <-chan *Subscription {
	got := make(chan *Subscription, 1)
	go func() {
		s, _ := c.Subscribe(context.Background(), owner, kinds...)
		got <- s
	}()
	return got
}

func TestSubscriptionGoesOnOverConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		got := subscribing(c, "o", wire.EventGrant, wire.EventKilled)
		a := p.want(wire.OpSubscribe)
		if a.req.Owner != "o" || a.req.Kinds != 1<<wire.EventGrant|1<<wire.EventKilled || a.req.Positions != nil {
			t.Fatalf("asked %+v", a.req)
		}
		p.reply(a.id, wire.OpSubscribe, &wire.Result{Count: 1,
			List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 10}, {Log: 3, Index: 5}}}})
		s := <-got
		p.event(wire.Event{Kind: wire.EventGrant, Path: "a:/b", Namespace: "a:/b", Token: 9,
			At: wire.Position{Log: 2, Index: 11, Ordinal: 1}})
		if e := <-s.Events(); e != (Event{Kind: wire.EventGrant, Owner: "o", Path: "a:/b",
			Namespace: "a:/b", Token: 9}) {
			t.Fatalf("event %+v", e)
		}
		p.Close()
		p = f.open()
		a = p.want(wire.OpSubscribe)
		if want := []wire.Position{{Log: 2, Index: 11, Ordinal: 1}, {Log: 3, Index: 5}}; !slices.Equal(a.req.Positions,
			want) {
			t.Fatalf("resumed from %v, want %v", a.req.Positions, want)
		}
		p.refuse(a, wire.Unavailable) // not now
		a = p.want(wire.OpSubscribe)
		p.reply(a.id, wire.OpSubscribe, &wire.Result{Count: 4, List: &wire.List{Positions: a.req.Positions}})
		p.send(wire.AppendProgress(nil, wire.PushGap,
			&wire.Progress{Subscription: 4, Cursor: []wire.Position{{Log: 3, Index: 50}}}))
		p.event(wire.Event{Subscription: 4, Kind: wire.EventKilled, At: wire.Position{Log: 3, Index: 51}})
		if e := <-s.Events(); e != (Event{Gap: true, Owner: "o"}) {
			t.Fatalf("event %+v, want a gap", e)
		}
		if e := <-s.Events(); e.Kind != wire.EventKilled {
			t.Fatalf("event %+v", e)
		}
		p.send(wire.AppendProgress(nil, wire.PushProgress,
			&wire.Progress{Subscription: 4, Cursor: []wire.Position{{Log: 3, Index: 60}}}))
		pass(0)
		p.Close()
		p = f.open()
		a = p.want(wire.OpSubscribe)
		if want := []wire.Position{{Log: 3, Index: 60}}; !slices.Equal(a.req.Positions, want) {
			t.Fatalf("resumed from %v, want %v", a.req.Positions, want)
		}
		s.Close()
		p.ok(a) // too late: it is given back
		if u := p.want(wire.OpUnsubscribe); u.req.Target != 1 {
			t.Fatalf("unsubscribed %d", u.req.Target)
		}
		if _, open := <-s.Events(); open || s.Err() != nil {
			t.Fatalf("after Close: %v", s.Err())
		}
	})
}

func TestSubscriptionsAreNotMixedUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		one := subscribing(c, "one")
		p.ok(p.want(wire.OpSubscribe))
		s := <-one
		s.Close()
		p.want(wire.OpUnsubscribe) // its answer is lost
		p.Close()
		p = f.open()
		// Subscription 1 of this connection is somebody else's.
		two := subscribing(c, "two")
		a := p.next()
		if a.req.Op != wire.OpSubscribe {
			t.Fatalf("%v on the next connection", a.req.Op)
		}
		p.ok(a)
		s = <-two
		p.event(wire.Event{Kind: wire.EventRevoke, At: wire.Position{Log: 2, Index: 11}})
		if e := <-s.Events(); e.Kind != wire.EventRevoke || e.Owner != "two" {
			t.Fatalf("event %+v", e)
		}
	})
}

func TestSubscriptionThatIsNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		got := subscribing(c, "o")
		p.ok(p.want(wire.OpSubscribe))
		s := <-got
		for i := range SubscriptionBuffer + 10 {
			p.event(wire.Event{Kind: wire.EventGrant, Token: int64(i), At: wire.Position{Log: 2, Index: uint64(i)}})
		}
		pass(0)
		for i := range SubscriptionBuffer {
			if e := <-s.Events(); e.Token != int64(i) || e.Gap {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
		if e := <-s.Events(); !e.Gap {
			t.Fatalf("%+v, want a gap", e)
		}
		p.event(wire.Event{Kind: wire.EventGrant, Token: 999, At: wire.Position{Log: 2, Index: 999}})
		if e := <-s.Events(); e.Token != 999 {
			t.Fatalf("%+v after the gap", e)
		}
	})
}

func TestSubscriptionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		failed := make(chan error, 1)
		go func() {
			_, err := c.Subscribe(context.Background(), "o")
			failed <- err
		}()
		p.refuse(p.want(wire.OpSubscribe), wire.ResourceExhausted)
		if err := <-failed; !errors.Is(err, ErrResourceExhausted) {
			t.Fatalf("refused: %v", err)
		}
		if _, err := c.Subscribe(context.Background(), ""); !errors.Is(err, ErrInvalidArgument) {
			t.Fatalf("no owner: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.Subscribe(ctx, "o"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("no answer: %v", err)
		}
		p.ok(p.want(wire.OpSubscribe))
		p.ok(p.want(wire.OpUnsubscribe))
		got := subscribing(c, "o")
		p.ok(p.want(wire.OpSubscribe))
		s := <-got
		c.Close()
		if _, open := <-s.Events(); open || !errors.Is(s.Err(), ErrClosed) {
			t.Fatalf("after the client's end: %v", s.Err())
		}
		if _, err := c.Subscribe(context.Background(), "o"); !errors.Is(err, ErrClosed) {
			t.Fatalf("on a closed client: %v", err)
		}
	})
}

// watchedLock takes a lock and waits until its owner's events are subscribed to.
func watchedLock(t *testing.T, c *Client, p *peer, opts ...LockOption) *Lock {
	l := lockWith(t, c, p, opts...)
	p.ok(p.want(wire.OpSubscribe)) // and a renewal: something may have happened before
	p.ok(p.want(wire.OpRenew))
	pass(2 * watchAfter)
	return l
}

func TestEventsOfALock(t *testing.T) {
	here := wire.Event{Kind: wire.EventKilled, Namespace: "a:/b", At: wire.Position{Log: 2, Index: 11}}
	wait := here
	wait.Path = "a:/b/d"
	elsewhere := here
	elsewhere.Namespace = "a:/other"
	expired := here
	expired.Kind = wire.EventExpired
	for name, one := range map[string]struct {
		frame  []byte
		lost   error
		renews bool
	}{
		"killed":           {wire.AppendEvent(nil, sub1(here)), ErrKilled, false},
		"a wait is ended":  {wire.AppendEvent(nil, sub1(wait)), nil, true},
		"killed elsewhere": {wire.AppendEvent(nil, sub1(elsewhere)), nil, false},
		"expired":          {wire.AppendEvent(nil, sub1(expired)), nil, true}, // or one before it: the server knows
		"gap":              {wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				l := watchedLock(t, c, p)
				p.send(one.frame)
				pass(0)
				if err := l.Err(); !errors.Is(err, one.lost) || (err == nil) != (one.lost == nil) {
					t.Fatalf("got %v, want %v", err, one.lost)
				}
				switch {
				case one.renews:
					p.ok(p.want(wire.OpRenew))
				case one.lost != nil:
					p.ok(p.want(wire.OpUnsubscribe))
				default:
					p.quiet(time.Second)
				}
			})
		})
	}
}

func sub1(e wire.Event) *wire.Event {
	e.Subscription = 1
	return &e
}

func TestRevokeIsToldByAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		told := make(chan *Lock, 9)
		l := watchedLock(t, c, p, OnRevoke(func(l *Lock) { told <- l }))
		for i := range 3 {
			p.event(wire.Event{Kind: wire.EventRevoke, At: wire.Position{Log: 2, Index: 20 + uint64(i)}})
		}
		<-l.Revoked()
		pass(0)
		if len(told) != 1 || <-told != l {
			t.Fatalf("told %d times, want once", len(told))
		}
		must(t, l.Err())
	})
}

func TestTopologyIsWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		first := make(chan *peer, 1)
		go func() { first <- f.seeing() }()
		c, p := dial(t, f.addr, WithDialer(f.dial), WithKeepAlive(time.Hour)), <-first
		a := p.want(wire.OpTopology)
		if !a.req.Watch {
			t.Fatal("the client itself asked for no pushes")
		}
		p.reply(a.id, wire.OpTopology, &wire.Result{})
		pass(0) // it concerns nobody who comes later
		ctx, cancel := context.WithCancel(context.Background())
		ch, err := c.WatchTopology(ctx)
		must(t, err)
		version := func(n uint64) *wire.Result {
			return &wire.Result{List: &wire.List{Topology: &wire.Topology{Version: n, Leaders: []string{"n0"}}}}
		}
		want := func(n uint64) {
			t.Helper()
			if top := <-ch; top.Version != n || top.Leaders[0] != "n0" {
				t.Fatalf("got %+v, want version %d", top, n)
			}
		}
		if a = p.want(wire.OpTopology); !a.req.Watch {
			t.Fatal("asked for no pushes")
		}
		p.reply(a.id, wire.OpTopology, version(1))
		want(1)
		for n := uint64(2); n < 5; n++ {
			p.send(wire.AppendTopology(nil, version(n).List.Topology))
		}
		pass(0)
		want(4) // the latest
		p.Close()
		p = f.seeing()
		a = p.want(wire.OpTopology)
		p.reply(a.id, wire.OpTopology, version(5))
		want(5)
		asked := make(chan *wire.Topology, 1)
		go func() {
			top, _ := c.Topology(context.Background())
			asked <- top
		}()
		if a = p.want(wire.OpTopology); !a.req.Watch {
			t.Fatal("a question ended the pushes")
		}
		p.reply(a.id, wire.OpTopology, version(6))
		if top := <-asked; top.Version != 6 {
			t.Fatalf("got %+v", top)
		}
		cancel()
		if _, open := <-ch; open {
			t.Fatal("the channel is open after its context")
		}
	})
}
