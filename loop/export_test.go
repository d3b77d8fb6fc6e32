package loop

import (
	"sync/atomic"
	"time"
)

// Lanes is how many connections are off their event loops.
func (s *Server) Lanes() int {
	return s.sessions(func(c *session) bool { return c.lane != nil || c.moving })
}

// LeftOut is how many clients are yet to hear that they were not told all of their leases.
func (s *Server) LeftOut() int { return s.sessions(func(c *session) bool { return c.leftOut }) }

// sessions is how many sessions are so, as their loops see it behind what was posted before.
func (s *Server) sessions(is func(c *session) bool) int {
	var n atomic.Int64
	for _, r := range s.loops() {
		done := make(chan struct{})
		r.post(item{do: func() {
			for c := range r.sessions {
				if is(c) {
					n.Add(1)
				}
			}
			close(done)
		}})
		<-done
	}
	return int(n.Load())
}

// Coming is how much waits for the event loops.
func (s *Server) Coming() (n int) {
	for _, r := range s.loops() {
		r.mu.Lock()
		n += len(r.inbox)
		r.mu.Unlock()
	}
	return n
}

// StoodStill has the server find that its process stood still for as long until now.
func (s *Server) StoodStill(d time.Duration) {
	s.pulse.known.Store(&beat{last: s.pulse.uptime() - d, stood: s.Stood()})
}

// Waited has the server find that what it has not taken yet has been there for so much longer.
func (s *Server) Waited(d time.Duration) {
	s.sessions(func(c *session) bool {
		for _, since := range []*time.Duration{&c.waited.later, &c.waited.in, &c.waited.paused} {
			if *since != 0 {
				*since -= d
			}
		}
		if c.waited.told != 0 {
			c.waited.toldAt -= d
		}
		return false
	})
}

// ReadsFor has the server find that it has read its connections for so much longer.
func (s *Server) ReadsFor(d time.Duration) {
	s.sessions(func(c *session) bool {
		if w := &c.waited; w.paused == 0 && w.resumed != 0 {
			w.resumed -= d
			w.counted -= d
		}
		return false
	})
}

// Behind is how many bytes were read behind frames that there is no room for.
func (s *Server) Behind() (n int) {
	s.sessions(func(c *session) bool {
		n += len(c.in)
		return false
	})
	return n
}

// TurnsOver is how many turns are over and not passed on, as clients have not read enough.
func (s *Server) TurnsOver() (n int) {
	s.sessions(func(c *session) bool {
		n += c.turns.had
		return false
	})
	return n
}

// Untaken is how many bytes were read for which there is no room, with those behind.
func (s *Server) Untaken() (n int) {
	s.sessions(func(c *session) bool {
		n += len(c.later) + len(c.in)
		return false
	})
	return n
}

// Stood is when the server found last that its process stood still, by its uptime.
func (s *Server) Stood() time.Duration { return s.pulse.known.Load().stood }

// Patience is how long connections may wait to be taken from now on, before the server listens.
func (s *Server) Patience(d time.Duration) { s.patience = d }
