package loop

import "github.com/pathlockd/pathlockd/wire"

// A listing waits for as long as a log has no leader, and others of its connection are not to wait with it. So a
// connection may have many under way. But an answer takes up to a frame of memory, and of those there are few: each is
// gathered in a turn (wire.Turns), which the next one has once it is answered and its client keeps up with reading.

// turns are those of a connection; the zero value is of one that asked for no listing yet.
type turns struct {
	wire.Turns
	gone chan struct{} // Turns.Gone
	had  int           // turns that are over and not passed on: the client has not read enough
}

// takesTurns answers the turns of the connection for a call of it.
func (s *session) takesTurns() *wire.Turns {
	t := &s.turns
	if t.Free == nil {
		t.Free, t.gone = make(chan struct{}, wire.MaxGathered), make(chan struct{})
		t.Gone = t.gone
		for range wire.MaxGathered {
			t.Free <- struct{}{}
		}
	}
	return &t.Turns
}

// passTurns passes turns on that are over, once there is room for more answers.
func (s *session) passTurns() {
	for t := &s.turns; t.had > 0 && s.room(); t.had-- {
		t.Free <- struct{}{} // has room for all there are
	}
}

// end has nobody wait for a turn any more.
func (t *turns) end() {
	if t.gone != nil {
		close(t.gone)
	}
}
