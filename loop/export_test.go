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

// ReadNothing has the server find that it has read nothing of the connections off their loops for so much longer.
func (s *Server) ReadNothing(d time.Duration) {
	s.sessions(func(c *session) bool {
		if c.lane != nil && c.lane.stopped != 0 {
			c.lane.stopped -= d
			c.lane.taken.Store(int64(c.lane.stopped))
		}
		return false
	})
}

// Stood is when the server found last that its process stood still, by its uptime.
func (s *Server) Stood() time.Duration { return s.pulse.known.Load().stood }
