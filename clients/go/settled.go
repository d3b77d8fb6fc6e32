package pathlockd

import "github.com/pathlockd/pathlockd/wire"

// The servers keep the answers of a session until it says that it has them. Each request
// says so of all ids below the lowest that is open (PROTOCOL.md section 3).

// settledEvery is how many ids pass before it is worked out again up to where answers are
// settled: servers keep some times as many.
const settledEvery = 128

// settle answers up to where answers are settled as a call is sent, which is
// open itself. Called under the lock.
func (s *session) settle(c *call) uint64 {
	id := c.id
	switch {
	case c.op == wire.OpPing: // it tells of no repeats, and of what came lately
		return min(s.firstOpen(), id)
	// what is to be asked again is open too
	case s.mu.again.first != nil, s.mu.keeps.first != nil, s.mu.anew.first != nil:
	case s.mu.sent.n == 1 && len(s.mu.kept) == 0:
		s.mu.settled, s.mu.looked = id, s.mu.lastID
	case s.mu.lastID-s.mu.looked >= settledEvery:
		s.mu.settled, s.mu.looked = s.lowest(), s.mu.lastID
	}
	return min(s.mu.settled, id)
}

// firstOpen is the lowest id that has no answer, acquires that wait aside.
func (s *session) firstOpen() uint64 {
	low := s.mu.lastID + 1
	for c := range s.mu.sent.all() {
		if !c.waits {
			low = min(low, c.id)
		}
	}
	return low
}

// lowest is the lowest id that is open.
func (s *session) lowest() uint64 {
	low := s.mu.lastID + 1
	for c := range s.mu.sent.all() {
		low = min(low, c.id)
	}
	for id := range s.mu.kept {
		low = min(low, id)
	}
	return low
}

// keep notes that a call was answered so that its caller may ask it again. Called under
// the lock.
func (s *session) keep(c *call, code wire.Code) {
	if !c.repeats || code != wire.Unavailable && code != wire.DeadlineExceeded && code != wire.ResourceExhausted {
		return
	}
	c.kept = true
	if s.mu.kept == nil {
		s.mu.kept = make(map[uint64]struct{})
	}
	s.mu.kept[c.id] = struct{}{}
}

// unkeep notes that it is asked again, or never will be. Called under the lock.
func (s *session) unkeep(c *call) {
	if c.kept {
		c.kept = false
		delete(s.mu.kept, c.id)
	}
}

// forgoes notes that a call is not asked again under its id.
func (c *call) forgoes() {
	if s := c.session; s != nil {
		s.mu.Lock()
		s.unkeep(c)
		s.mu.Unlock()
	}
}
