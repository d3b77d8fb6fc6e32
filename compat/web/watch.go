package web

import (
	"net/http"
	"sync"
	"time"
)

// side is the direction that a watch looks at, and stops.
type side func(http.ResponseWriter, time.Time) error

func readSide(w http.ResponseWriter, t time.Time) error {
	return http.NewResponseController(w).SetReadDeadline(t)
}

func writeSide(w http.ResponseWriter, t time.Time) error {
	return http.NewResponseController(w).SetWriteDeadline(t)
}

// watch bounds a stage that many requests go through, and in which a client can make
// them stay: in time for each, and in bytes for all of them together. Where there is
// no room for one more byte, the request that entered first is thrown out, of those that
// have more than a fair share: a client that is not slow is never that one for long, so
// those that are slow on purpose only do harm to each other.
//
// It stands in for a timer for each request, and costs a request two short locks.
type watch struct {
	most   int64
	within time.Duration
	side   side

	mu struct {
		sync.Mutex
		first, last *watched
		bytes       int64
		timer       *time.Timer // armed while there is somebody to throw out
		armed       bool
	}
}

// watched is a request in a stage.
type watched struct {
	w          http.ResponseWriter
	since      time.Time
	bytes      int64
	prev, next *watched
	in         bool

	mu  sync.Mutex // held while it is thrown out: the request must not end meanwhile
	why verdict
}

// verdict is why a request was thrown out of a stage.
type verdict uint8

const (
	stayed  verdict = iota // it was not
	tooSlow                // it was in there for too long
	tooMany                // others needed the room
)

func newWatch(most int64, within time.Duration, s side) *watch {
	return &watch{most: most, within: within, side: s}
}

// enter lets a request in, with so many bytes.
func (s *watch) enter(x *watched, w http.ResponseWriter, bytes int64) {
	x.w, x.since, x.bytes, x.why = w, time.Now(), 0, stayed
	s.mu.Lock()
	x.in, x.prev, x.next = true, s.mu.last, nil
	if s.mu.last != nil {
		s.mu.last.next = x
	} else {
		s.mu.first = x
	}
	s.mu.last = x
	if !s.mu.armed {
		s.mu.armed = true
		if s.mu.timer == nil {
			s.mu.timer = time.AfterFunc(s.within, s.look)
		} else {
			s.mu.timer.Reset(s.within)
		}
	}
	s.mu.Unlock()
	s.grow(x, bytes)
}

// grow adds to what a request has, and answers whether it may stay.
func (s *watch) grow(x *watched, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.in {
		return false
	}
	x.bytes += bytes
	s.mu.bytes += bytes
	for s.mu.bytes > s.most {
		s.throw(s.victim(), tooMany)
	}
	return x.in
}

const (
	// fairShare is what a request may have in a stage without being thrown out for
	// others, as long as one of those before it has more. Bytes.
	fairShare = 64 << 10
	// maxSpared is how many are passed over at most in the search for that one.
	maxSpared = 64
)

// victim is who makes room: the first of those that have more than a fair share, or
// the first of all when it is the many that take the room.
func (s *watch) victim() *watched {
	x := s.mu.first
	for range maxSpared {
		if x == nil || x.bytes > fairShare {
			break
		}
		x = x.next
	}
	if x == nil || x.bytes <= fairShare {
		return s.mu.first
	}
	return x
}

// leave lets a request go on, and says whether it had been thrown out.
func (s *watch) leave(x *watched) verdict {
	s.mu.Lock()
	if x.in {
		s.remove(x)
	}
	s.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.w = nil
	return x.why
}

// remove takes a request off the list.
func (s *watch) remove(x *watched) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		s.mu.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		s.mu.last = x.prev
	}
	x.in, x.prev, x.next = false, nil, nil
	s.mu.bytes -= x.bytes
}

// throw takes a request off the list and makes its reads or writes fail. That may
// have to wait for the connection's goroutine, so the list is not locked meanwhile;
// it is again afterwards.
func (s *watch) throw(x *watched, why verdict) {
	s.remove(x)
	x.mu.Lock()
	s.mu.Unlock()
	x.why = why
	_ = s.side(x.w, time.Unix(1, 0)) // long ago
	x.mu.Unlock()
	s.mu.Lock()
}

// look throws out what is over its time.
func (s *watch) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := s.mu.first; x != nil; x = s.mu.first {
		left := s.within - time.Since(x.since)
		if left > 0 {
			s.mu.timer.Reset(left)
			return
		}
		s.throw(x, tooSlow)
	}
	s.mu.armed = false
}

// stop ends the timer.
func (s *watch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
}
