package loop

import "github.com/pathlockd/pathlockd/wire"

// sink delivers events to a session. Its methods are called by any goroutine, one
// at a time for each subscription.
type sink struct {
	s      *session
	number uint64
}

// Deliver implements wire.EventSink.
func (k *sink) Deliver(sub *wire.Subscription, kind wire.EventKind, path, namespace string, token int64,
	at wire.Position) {
	if k.s.overrun.Load() {
		return
	}
	k.number++
	k.s.push(wire.AppendEvent(nil, &wire.Event{
		Subscription: sub.Number, Number: k.number, Kind: kind, Owner: sub.Owner, Path: path,
		Namespace: namespace, Token: token, At: at,
	}))
}

// Progress implements wire.EventSink.
func (k *sink) Progress(sub *wire.Subscription, cursor []wire.Position) {
	p := &wire.Progress{Subscription: sub.Number, Cursor: cursor}
	k.s.push(wire.AppendProgress(nil, wire.PushProgress, p))
}

// Gap implements wire.EventSink.
func (k *sink) Gap(sub *wire.Subscription, cursor []wire.Position) {
	p := &wire.Progress{Subscription: sub.Number, Cursor: cursor}
	k.s.push(wire.AppendProgress(nil, wire.PushGap, p))
}

// subscribed is a subscription of a session.
type subscribed struct {
	wire.Subscription
	live bool   // what it asked to have again is on its way
	kept *chunk // memory of what is left of its cursor, nil: nothing
}

// Progress implements wire.ProgressSink, for all subscriptions of the session.
func (s *session) Progress(cursor []wire.Position) {
	s.r.post(item{do: func() {
		for _, sub := range s.subs {
			if sub.live {
				p := &wire.Progress{Subscription: sub.Number, Cursor: cursor}
				s.pushOut(wire.AppendProgress(nil, wire.PushProgress, p))
			}
		}
	}})
}

// push sends a frame from any goroutine. What the loop has not taken yet is bounded
// like what the peer has not read: over that the connection is closed, as nothing
// may be left out silently.
func (s *session) push(frame []byte) {
	if s.pushed.Add(int64(len(frame))) <= int64(s.srv.opt.Pushes) {
		s.r.post(item{s: s, buf: frame, push: true})
		return
	}
	if !s.overrun.Swap(true) {
		s.r.post(item{do: func() { s.goodbye(s.notPushed()) }})
	}
}

// deliver writes what push sent, on the loop.
func (s *session) deliver(frame []byte) {
	s.pushed.Add(-int64(len(frame)))
	s.pushOut(frame)
}

// pushOut is deliver for what is made on the loop.
func (s *session) pushOut(frame []byte) {
	s.write(frame)
	if l := s.lane; l != nil {
		// What was read is not unread: there is no more of pushes than there is of all.
		if l.pushes = min(l.pushes+len(frame), s.backlog()); l.pushes > s.srv.opt.Pushes {
			s.goodbye(s.notPushed())
		}
	}
}

// maxTelling bounds what is told of a session's leases and the loop has not taken yet, bytes.
const maxTelling = 1 << 20

// tell tells of a lease of the session, from any goroutine. What there is no room for is left out, and
// the client told so instead: it can ask. So a change that ends all leases of a client at once does not
// end its connection, on which others may hang.
func (s *session) tell(e *wire.LeaseEvent) {
	var frame []byte
	if e.Kind != 0 {
		frame = wire.AppendLeaseEvent(nil, e)
	}
	if frame == nil || s.telling.Add(int64(len(frame))) > maxTelling {
		s.telling.Add(int64(-len(frame)))
		if !s.untold.Swap(true) {
			s.r.post(item{do: s.leaveOut})
		}
		return
	}
	s.r.post(item{do: func() { s.told(frame) }})
}

// told writes what tell sent, on the loop.
func (s *session) told(frame []byte) {
	s.telling.Add(int64(-len(frame)))
	if !s.room() {
		s.untold.Store(true)
		s.leaveOut()
		return
	}
	s.write(frame)
}

// leaveOut takes note that something was left out.
func (s *session) leaveOut() {
	s.leftOut = true
	s.tellLeftOut()
}

// tellLeftOut tells the client that something was left out, once there is room.
func (s *session) tellLeftOut() {
	if s.leftOut && s.room() {
		s.leftOut = false
		s.untold.Store(false) // first: what is left out from now on is told of again
		s.write(wire.AppendLeaseEvent(nil, &wire.LeaseEvent{}))
	}
}
