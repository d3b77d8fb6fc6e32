package loop

import (
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// session is one connection. All its methods run on its loop, but for push.
type session struct {
	srv  *Server
	r    *reactor
	conn gnet.Conn // nil while it is off its loop

	hello    *wire.Session // nil until the client said hello
	lane     *lane         // that serves it off its loop, or nil
	moving   bool          // it is on its way back to its loop
	highest  uint64        // id that was handed over
	listings int           // calls not yet answered whose answers are gathered in turns
	gathers  int           // others not yet answered whose answers may be long
	turns    turns         // in which they are
	inflight int           // calls not yet answered, waiting ones aside
	waiting  map[uint64]struct{}
	bound    map[string][]bond // by owner
	grace    uint64            // ms, of leases tied by their requests
	tied     bool              // a lease may be tied to the connection
	subs     map[uint64]*subscribed
	lastSub  uint64
	unwatch  func()
	untell   func() // ends what Tell began, nil: the client did not ask to be told of its leases

	in      []byte // an unfinished frame
	later   []byte // whole frames before it, for which there is no room yet
	waited  waited // since when these are here, and what is not read yet
	need    int    // bytes it takes, 0 if not known
	partial int64  // its memory, as counted in the server's
	began   time.Time
	read    int64  // bytes of the frames being taken
	chunk   *chunk // theirs, once a call stands in it
	held    int64  // memory of requests not answered, and of cursors, as counted in the server's

	out     []byte // to be written by flush
	queued  bool   // in the reactor's dirty list
	unread  int64  // bytes that wait to be sent, as counted in the server's
	closing bool   // to be closed once out is written
	broken  bool   // and out cannot be
	closed  bool   // the connection is gone
	owes    bool   // the handler is to be told of that again once inflight is 0
	opened  time.Time

	pushed  atomic.Int64 // bytes of pushes on their way to the loop
	overrun atomic.Bool  // they are too many
	telling atomic.Int64 // bytes of what is told of leases, on its way to the loop
	untold  atomic.Bool  // some was left out, and the client will be told so
	leftOut bool         // likewise, once the loop knows: as soon as there is room
}

// sweep closes the connection if it keeps the server waiting.
func (s *session) sweep(now time.Time) {
	switch {
	case s.hello == nil && now.Sub(s.opened) > s.srv.opt.HelloWithin:
		s.goodbye(wire.Errorf(wire.DeadlineExceeded, "no hello within %v", s.srv.opt.HelloWithin))
	case s.lane != nil && !s.lane.reading && tcp.Ended(s.lane.conn): // who does not read does not notice
		s.lane.lost()
		return
	case len(s.later) > 0 || s.lane != nil && !s.lane.reading: // the server has stopped reading
		s.began = now
	case len(s.in) > 0 && now.Sub(s.began) > s.srv.opt.FrameWithin:
		s.goodbye(wire.Errorf(wire.DeadlineExceeded, "a frame was not finished within %v", s.srv.opt.FrameWithin))
	}
	if s.unread > 0 {
		s.count()
	}
}

// gone is called when the connection is closed.
func (s *session) gone() {
	s.closed = true
	s.srv.count.Add(-1)
	s.in, s.later = nil, nil
	s.turns.end()
	s.account()
	s.count()
	delete(s.r.sessions, s)
	if s.out != nil {
		s.r.keep(s.out)
		s.out = nil
	}
	for _, sub := range s.subs {
		s.unsubscribe(sub)
	}
	s.subs = nil
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	if s.untell != nil {
		s.untell()
		s.untell = nil
	}
	s.owes = s.inflight > 0
	s.leave()
}

// leave tells the handler, and again once nothing but waits is left. A server that stops
// itself takes nothing from its clients: what they hold and wait for stays theirs.
func (s *session) leave() {
	if s.hello == nil {
		return
	}
	resumed := s.srv.exit(s)
	if !s.srv.stopping.Load() {
		// What an earlier connection tied is this one's now, wherever that one was.
		s.srv.handler.Closed(s.hello, s.tied || s.hello.Epoch > 1, resumed)
	}
}
