package pathlockd

import (
	"context"
	"fmt"

	"github.com/pathlockd/pathlockd/wire"
)

// Event is something that happened to an owner, or the news that some of that is
// not known.
type Event struct {
	Kind      wire.EventKind // 0 for a gap
	Gap       bool           // events were missed: look at the state itself
	Owner     string
	Path      string // that was granted, or a wait for it was ended (KILLED), the first of several; else ""
	Namespace string // "" when it is about all namespaces
	Token     int64  // of a grant
}

// SubscriptionBuffer is how many events a Subscription keeps that are not read
// yet. When it is full, a gap takes the place of what is missed.
const SubscriptionBuffer = 256

// Subscription delivers the events of one owner, in order. It goes on by itself
// over lost connections, and gets what happened meanwhile; or a gap, as when another
// cluster has taken the place of the one it began in.
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
	cursor cursor
	anew   bool // it was asked for without its cursor, which does not serve: that makes a gap
	full   bool // a gap was told, and nothing since
	closed bool
	err    error
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

// land implements receiver: it takes the answer to subscribe.
func (s *Subscription) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	all := &s.c.subs
	gap, again := false, codeOf(err) == wire.Unavailable
	all.mu.Lock()
	s.asking = false
	switch {
	case s.closed && err == nil:
		all.unsubscribe(res.Count, r.tie.number)
	case s.closed:
	case err == nil:
		gap, again = all.began(s, res, r.tie.number)
	case again:
		all.later(s)
	}
	all.mu.Unlock()
	if again {
		return // it is asked again
	}
	if err != nil {
		all.end(s, err)
	}
	s.ready(err)
	if gap && s.tell != nil {
		s.tell(Event{Gap: true, Owner: s.owner})
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
