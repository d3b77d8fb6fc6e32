package pathlockd

import (
	"strings"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

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

// ask sends the subscribe request, for events after the cursor if there is one that
// serves.
func (all *subscriptions) ask(s *Subscription) error {
	c := newCall(s)
	req := wire.Request{Op: wire.OpSubscribe, Owner: s.owner, Kinds: s.kinds}
	at, _ := all.c.home.server()
	if s.cursor.serves(at.ClusterID) {
		s.anew, req.Positions = false, s.cursor.positions()
	} else {
		s.anew = !s.cursor.begins()
	}
	if err := req.Validate(); err != nil {
		return &refusal{wire.OpSubscribe, *err}
	}
	c.set(&req)
	c.urgent = true
	s.asking = true
	return all.c.home.session.submit(c)
}

// began takes note that a subscription has a number on a connection, which is that of
// the home lane now. It answers whether events may have been missed, and whether it is
// asked for again: a request that was repeated there may have come with the cursor of
// another cluster.
func (all *subscriptions) began(s *Subscription, res *wire.Result, on uint64) (gap, again bool) {
	at, _ := all.c.home.server()
	if !s.anew && !s.cursor.begins() && !s.cursor.serves(at.ClusterID) {
		all.unsubscribe(res.Count, on)
		return false, all.ask(s) == nil // refused only when the client is closed
	}
	s.number, s.on = res.Count, on
	all.mu.known[s.number] = s
	if gap, s.anew = s.anew, false; gap || s.cursor.begins() {
		s.cursor.set(at.ClusterID, list(res).Positions)
	}
	if gap && s.tell == nil {
		s.put(Event{Gap: true, Owner: s.owner})
	}
	return gap, false
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
		all.deliver(e.Subscription, func(s *Subscription) { s.cursor.move(e.At) }, Event{
			Kind: e.Kind, Path: strings.Clone(e.Path), Namespace: strings.Clone(e.Namespace), Token: e.Token,
		})
		return nil
	}
	var p wire.Progress
	if err := p.Decode(&f.rest, f.fields); err != nil {
		return &ProtocolError{Step: "progress push", Err: err}
	}
	all.deliver(p.Subscription, func(s *Subscription) { s.cursor.set(s.cursor.cluster, p.Cursor) },
		Event{Gap: f.push == wire.PushGap})
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
