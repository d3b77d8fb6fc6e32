package replica

import "github.com/pathlockd/pathlockd/engine"

// OpenCalls is where the open calls of a log are at one time. There may be very many: so they are listed
// when its lock is let go.
type OpenCalls struct {
	Term uint64 // of the leader epoch
	in   []callsIn
}

// callsIn is those of one group.
type callsIn struct {
	group uint16
	view  *engine.View
}

// OpenCalls is called under the lock. It is nil when there are none.
func (m *Machine) OpenCalls(term uint64) (open *OpenCalls) {
	for _, g := range m.Order {
		if g.State.AnyOpen() {
			if open == nil {
				open = &OpenCalls{Term: term}
			}
			open.in = append(open.in, callsIn{g.Number, g.current()})
		}
	}
	return open
}

// Each calls use with the calls in sessions that are.
func (c *OpenCalls) Each(are func(engine.Session) bool, use func(group uint16, call engine.OpenCall)) {
	if c == nil {
		return
	}
	for _, in := range c.in {
		for _, call := range in.view.OpenCalls(are) {
			use(in.group, call)
		}
	}
}
