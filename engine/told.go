package engine

import "github.com/pathlockd/pathlockd/wire"

// A lease that ends without its owner's doing is told to the sessions that it is tied to, and so is
// that its owner is asked to let go. They may hear of it late, when the owner has taken the same
// paths again. So they are told which requests what is lost relied on (relied): nobody takes a hold
// of a later one for it. That is a hint, and no part of the state: who misses it learns the same
// from the next renewal.

// tell tells the sessions that a lease is tied to.
func (s *State) tell(l *lease, kind wire.EventKind) {
	if l.bind == nil {
		return
	}
	e := wire.LeaseEvent{Kind: kind, Owner: l.owner, Namespace: l.ns, Acquires: s.acquires(l)}
	s.tellOf(l.bind, &e)
	for _, b := range l.also {
		s.tellOf(b, &e)
	}
}

func (s *State) tellOf(b *binding, e *wire.LeaseEvent) {
	if !b.loose {
		s.out.Told = append(s.out.Told, Told{b.session, *e})
	}
}

// acquires is the requests that what a lease holds relies on, as many as are told.
func (s *State) acquires(l *lease) (marks []uint64) {
	left := wire.MaxLeaseAcquires // also of holds: nearly all rely on one request, and many on the same
	l.holds.All().Ascend(func(hkey string, _ *struct{}) bool {
		if h := s.held(l, hkey); h != nil {
			h.each(func(by uint64) bool {
				if len(marks) == 0 || marks[len(marks)-1] != by {
					marks = append(marks, by)
				}
				return len(marks) < wire.MaxLeaseAcquires
			})
		}
		left--
		return left > 0 && len(marks) < wire.MaxLeaseAcquires
	})
	return marks
}

// held is a hold by the name that its lease has for it.
func (s *State) held(l *lease, hkey string) *hold {
	if sharedKey(hkey) {
		s.key2 = append(append(s.key2[:0], hkey...), l.owner...)
		hkey = view(s.key2)
	}
	return s.holds.Get(hkey)
}

// sharedKey says that a lease's key of a hold is that of a read or a permit.
func sharedKey(hkey string) bool {
	suffix := hkey[max(0, len(hkey)-2):]
	return suffix == readSuffix || suffix == permSuffix
}
