package engine

import (
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// calls is the open calls of one session: acquires that wait until they are granted.
type calls struct {
	waiting map[uint64]uint64 // arrival number by request id
	order   []uint64          // the arrival numbers, ascending; some may be of calls that are not open any more
}

// tidy lets go of calls that are not open any more once these are the most. To take each out when it is answered
// made a hand-over move 800 kB in a session with 100 000 that wait.
func (of *calls) tidy() {
	if len(of.order) <= 2*len(of.waiting)+16 {
		return
	}
	of.order = of.order[:0]
	for _, seq := range of.waiting {
		of.order = append(of.order, seq)
	}
	slices.Sort(of.order)
}

// callOf is the arrival number of an open call, 0 when there is none.
func (s *State) callOf(c Caller) uint64 {
	if of := s.calls[c.Session]; of != nil {
		return of.waiting[c.ID]
	}
	return 0
}

// Awaits says that a request has an open call.
func (s *State) Awaits(c Caller) bool { return s.callOf(c) != 0 }

// CallsOf is how many open calls a session has.
func (s *State) CallsOf(id Session) int {
	if of := s.calls[id]; of != nil {
		return len(of.waiting)
	}
	return 0
}

// Adrift says that a request has an open call whose connection is gone, and which keeps its place for a grace.
func (s *State) Adrift(c Caller) bool {
	seq := s.callOf(c)
	return seq != 0 && s.waiter(seq).adrift
}

// openCall notes that a waiter has an open call.
func (s *State) openCall(c Caller, seq uint64) {
	of := s.calls[c.Session]
	if of == nil {
		of = &calls{waiting: make(map[uint64]uint64)}
		s.calls[c.Session] = of
	}
	of.waiting[c.ID] = seq
	if at, found := slices.BinarySearch(of.order, seq); !found {
		of.order = slices.Insert(of.order, at, seq)
	}
}

// closeCall notes that a waiter's call is not open any more.
func (s *State) closeCall(c Caller, seq uint64) {
	of := s.calls[c.Session]
	if of == nil || of.waiting[c.ID] != seq {
		return
	}
	delete(of.waiting, c.ID)
	if len(of.waiting) == 0 {
		delete(s.calls, c.Session)
		return
	}
	of.tidy()
}

// leftBehind says that a waiter's call was asked on a connection that is gone, and by nobody
// since: the node that its client asked last has not told the log of the call, nor of its end.
func (w *waiter) leftBehind(d *departure) bool {
	return w.open && !w.adrift && w.epoch <= d.epoch && w.past < d.arrival
}

// leftBehind is the departure of the connection that a waiter's call is on, if that has not come to it, else nil.
// Where its session went again since, it is the first.
func (s *State) leftBehind(w *waiter) *departure {
	if s.departing.Empty() || !w.open {
		return nil
	}
	var first *departure
	eachDeparture(&s.departing, &w.caller.Session, func(d *departure) bool {
		if w.leftBehind(d) {
			first = d
		}
		return first == nil
	})
	return first
}

// leaveCalls ends the waits of a session whose connection is gone, or leaves those that are tied
// to it their grace, in which the session may come back and ask again. It answers what that cost.
func (s *State) leaveCalls(id Session, d *departure, budget int) (cost int) {
	of := s.calls[id]
	if of == nil {
		return 0
	}
	for _, seq := range slices.Clone(of.order) {
		w := s.waiter(seq)
		if w == nil || w.caller.Session != id || of.waiting[w.caller.ID] != seq || !w.leftBehind(d) {
			continue // it is not open, or another session's by now
		}
		if cost >= budget {
			return cost
		}
		cost++
		s.leaveCall(seq, s.leftBehind(w))
	}
	return cost
}

// leaveCall does that for one.
func (s *State) leaveCall(seq uint64, d *departure) {
	w := s.editWaiter(seq)
	w.adrift = true
	if w.tieGrace() == 0 {
		s.abort(seq, wire.Errorf(wire.Cancelled, "the connection ended"))
		return
	}
	if at := s.since(d.at, w.bind.grace); at < w.deadline {
		w.deadline = at
		s.deadlines.arm(w.timer, w.deadline)
	}
}

// meetsCall sees to a wait that is about to be changed.
func (s *State) meetsCall(seq uint64) {
	if w := s.waiter(seq); w != nil {
		if d := s.leftBehind(w); d != nil {
			s.leaveCall(seq, d)
		}
	}
}
