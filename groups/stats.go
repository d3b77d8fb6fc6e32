package groups

// Stats is how much a node keeps, in all its logs.
type Stats struct {
	Locks   int // held
	Waiting int // paths waited for
}

// Stats counts what the node keeps. What has expired and is not reaped yet counts.
func (n *Node) Stats() (s Stats) {
	for _, m := range n.hosted() {
		m.mu.Lock()
		for _, g := range m.order {
			locks, waiting := g.state.Counts()
			s.Locks += locks
			s.Waiting += waiting
		}
		m.mu.Unlock()
	}
	return s
}
