package groups

// busy says that a request is not answered yet that is not simply waiting for its
// grant. A drain lets those finish; calls that wait go on after it, here or on
// another node.
func (n *Node) busy() bool {
	if len(n.slow) > 0 || n.changes.any() {
		return true
	}
	for i := range n.inflight {
		if n.inflight[i].Load() > 0 {
			return true
		}
	}
	for _, r := range n.readers {
		if r.reading() {
			return true
		}
	}
	for _, l := range n.logs {
		if !l.idle() {
			return true
		}
	}
	return false
}

// any says that policy changes are under way.
func (c *changeCalls) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// reading says that reads are not answered yet.
func (r *reader) reading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}
