package pathlockd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

// Event is something that happened to an owner, or the news that some of that is
// not known.
type Event struct {
	Kind      wire.EventKind // 0 for a gap
	Gap       bool           // events were missed: look at the state itself
	Owner     string
	Path      string // that was granted, the first of several; else ""
	Namespace string // "" when it is about all namespaces
	Token     int64  // of a grant
}

// SubscriptionBuffer is how many events a Subscription keeps that are not read
// yet. When it is full, a gap takes the place of what is missed.
const SubscriptionBuffer = 256

// Subscription delivers the events of one owner, in order. It goes on by itself
// over lost connections, and gets what happened meanwhile.
type Subscription struct {
	c      *Client
	owner  string
	kinds  uint64
	events chan Event
	tell   func(Event)     // instead of events
	ready  func(err error) // called with each answer to subscribe but UNAVAILABLE

	// Under the lock of subscriptions.
	number uint64 // on the current connection, 0: none yet
	on     uint64 // that connection
	asking bool
	cursor map[uint64]wire.Position // by log; nil before the first answer
	full   bool                     // a gap was told, and nothing since
	closed bool
	err    error
}

// subscriptions is those of a client. Events are taken on the reader's goroutine,
// under the lock.
type subscriptions struct {
	c  *Client
	mu struct {
		sync.Mutex
		all    map[*Subscription]struct{}
		known  map[uint64]*Subscription // by number on the current connection
		closed error
	}
}

// Subscribe delivers the events of an owner from now on: those of the named kinds,
// or KILLED, REVOKE and GRANT when none is named. ctx is for subscribing alone.
func (c *Client) Subscribe(ctx context.Context, owner string, kinds ...wire.EventKind) (*Subscription, error) {
	set := uint64(0)
	for _, k := range kinds {
		set |= 1 << k
	}
	sub := c.subs.make(owner, set)
	sub.events = make(chan Event, SubscriptionBuffer+1)
	answered := make(chan error, 1)
	c.subs.start(sub, nil, func(err error) {
		select {
		case answered <- err:
		default:
		}
	})
	select {
	case err := <-answered:
		if err != nil {
			sub.Close()
			return nil, err
		}
		return sub, nil
	case <-ctx.Done():
		sub.Close()
		return nil, fmt.Errorf("subscribe: %w", context.Cause(ctx))
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
}

// Events is where the events come. It is closed with the subscription.
func (s *Subscription) Events() <-chan Event { return s.events }

// Owner is whose events they are.
func (s *Subscription) Owner() string { return s.owner }

// Err says why the subscription ended by itself, nil while it goes on and after
// Close.
func (s *Subscription) Err() error {
	s.c.subs.mu.Lock()
	defer s.c.subs.mu.Unlock()
	return s.err
}

// Close ends the subscription.
func (s *Subscription) Close() { s.c.subs.end(s, nil) }

func (all *subscriptions) make(owner string, kinds uint64) *Subscription {
	return &Subscription{c: all.c, owner: owner, kinds: kinds}
}

// start asks for a subscription's events. ready is called with each answer, also
// to its being asked for again.
func (all *subscriptions) start(s *Subscription, tell func(Event), ready func(error)) {
	all.mu.Lock()
	err := all.mu.closed
	if err == nil && !s.closed {
		s.tell, s.ready = tell, ready
		all.mu.all[s] = struct{}{}
		err = all.ask(s)
	}
	all.mu.Unlock()
	if err != nil {
		ready(err)
	}
}

// ask sends the subscribe request, for events after the cursor if there is one.
func (all *subscriptions) ask(s *Subscription) error {
	c := newCall(s)
	req := wire.Request{Op: wire.OpSubscribe, Owner: s.owner, Kinds: s.kinds}
	for _, p := range s.cursor {
		req.Positions = append(req.Positions, p)
	}
	slices.SortFunc(req.Positions, func(a, b wire.Position) int { return int(a.Log) - int(b.Log) })
	if err := req.Validate(); err != nil {
		return &refusal{wire.OpSubscribe, *err}
	}
	c.set(&req)
	c.urgent = true
	s.asking = true
	return all.c.home.session.submit(c)
}

// land implements receiver: it takes the answer to subscribe.
func (s *Subscription) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	all := &s.c.subs
	all.mu.Lock()
	s.asking = false
	switch {
	case s.closed && err == nil:
		all.unsubscribe(res.Count, r.on)
	case s.closed:
	case err == nil:
		s.number, s.on = res.Count, r.on
		all.mu.known[s.number] = s
		if s.cursor == nil && res.List != nil {
			s.moveTo(res.List.Positions)
		}
	case codeOf(err) == wire.Unavailable:
		all.later(s)
	}
	all.mu.Unlock()
	if codeOf(err) == wire.Unavailable {
		return // it will be asked again
	}
	if err != nil {
		all.end(s, err)
	}
	s.ready(err)
}

// later asks again in a while.
func (all *subscriptions) later(s *Subscription) {
	s.asking = true // so that nobody else does
	all.c.spawn(func() {
		if !all.c.pause(backoff(0, maxRetry, maxRetry)) {
			return
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		if s.asking = false; !s.closed {
			_ = all.ask(s) // refused only when the client is closed
		}
	})
}

// unsubscribe tells the server that nobody listens any more to the subscription that
// has this number on that connection. On another one it may be somebody else's.
func (all *subscriptions) unsubscribe(number, on uint64) {
	c := newCall(ignored{})
	c.set(&wire.Request{Op: wire.OpUnsubscribe, Target: number})
	c.urgent, c.only = true, on
	if all.c.home.session.submit(c) != nil {
		c.free()
	}
}

// end ends a subscription, with an error or because nobody wants it any more.
func (all *subscriptions) end(s *Subscription, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.err = true, err
	delete(all.mu.all, s)
	if s.number != 0 {
		delete(all.mu.known, s.number)
		all.unsubscribe(s.number, s.on)
	}
	if s.events != nil {
		close(s.events)
	}
}

// detached is called when the connection is gone: its numbers mean nothing any
// more.
func (all *subscriptions) detached() {
	all.mu.Lock()
	defer all.mu.Unlock()
	clear(all.mu.known)
	for s := range all.mu.all {
		s.number = 0
	}
}

// resume asks for everything again, on a new connection. What is being asked for
// already the session repeats.
func (all *subscriptions) resume() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.mu.all {
		if !s.asking {
			_ = all.ask(s) // refused only when the client is closed
		}
	}
}

// close ends all subscriptions.
func (all *subscriptions) close(err error) {
	all.mu.Lock()
	all.mu.closed = err
	subs := make([]*Subscription, 0, len(all.mu.all))
	for s := range all.mu.all {
		s.number = 0
		subs = append(subs, s)
	}
	all.mu.Unlock()
	for _, s := range subs {
		all.end(s, err)
	}
}

// pushed takes what the server says about a subscription. What is about none that
// is known came too late.
func (all *subscriptions) pushed(f *landed) error {
	if f.push == wire.PushEvent {
		var e wire.Event
		if err := e.Decode(&f.rest, f.fields); err != nil {
			return &ProtocolError{Step: "event push", Err: err}
		}
		all.deliver(e.Subscription, func(s *Subscription) { s.cursor[e.At.Log] = e.At }, Event{
			Kind: e.Kind, Path: strings.Clone(e.Path), Namespace: strings.Clone(e.Namespace), Token: e.Token,
		})
		return nil
	}
	var p wire.Progress
	if err := p.Decode(&f.rest, f.fields); err != nil {
		return &ProtocolError{Step: "progress push", Err: err}
	}
	all.deliver(p.Subscription, func(s *Subscription) { s.moveTo(p.Cursor) }, Event{Gap: f.push == wire.PushGap})
	return nil
}

// deliver moves the cursor of a subscription and hands it an event, if that is one.
// A keeper's lease hears of it after the lock is let go: it may end the
// subscription at once.
func (all *subscriptions) deliver(number uint64, move func(*Subscription), e Event) {
	all.mu.Lock()
	s := all.mu.known[number]
	if s == nil {
		all.mu.Unlock()
		return
	}
	move(s)
	e.Owner = s.owner
	news := e.Gap || e.Kind != 0
	if news && s.tell == nil {
		s.put(e)
	}
	all.mu.Unlock()
	if news && s.tell != nil {
		s.tell(e)
	}
}

// moveTo takes a whole cursor.
func (s *Subscription) moveTo(cursor []wire.Position) {
	s.cursor = make(map[uint64]wire.Position, len(cursor))
	for _, p := range cursor {
		s.cursor[p.Log] = p
	}
}

// put hands an event over, without waiting. The last place of the channel is for
// the gap that tells that there was no room.
func (s *Subscription) put(e Event) {
	switch {
	case len(s.events) < SubscriptionBuffer:
		s.full = false
		s.events <- e
	case !s.full:
		s.full = true
		s.events <- Event{Gap: true, Owner: s.owner}
	}
}
