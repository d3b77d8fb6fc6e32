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
	s.pulse.last.Store(int64(time.Since(s.pulse.begin) - d))
}
