package loop

import "sync/atomic"

// Lanes is how many connections are off their event loops.
func (s *Server) Lanes() int {
	var n atomic.Int64
	for _, r := range s.loops() {
		done := make(chan struct{})
		r.post(item{do: func() {
			for c := range r.sessions {
				if c.lane != nil || c.moving {
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
