package loop

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// bond is what a bind or an unbind says of an owner. It counts from when it is asked, so that
// no lease is missed that is taken meanwhile; and not any more when it was refused. So of each
// owner those are kept that are not answered, in their order, and before them the last that
// was carried out. The last of all counts.
type bond struct {
	id     uint64 // of the request
	grace  uint64 // ms
	off    bool   // it was an unbind
	open   int    // requests of that id that are not answered yet
	undone bool   // none of them was carried out on this connection, as far as is known
}

// bind takes note of a bind or an unbind that is about to be handed over. Its owner stands in
// the memory of a whole read, and a map takes over the key it is given, also for one that it
// has: so each gets one of its own.
func (s *session) bind(id uint64, req *wire.Request) *wire.Error {
	bonds, bound := s.bound[req.Owner]
	said := slices.IndexFunc(bonds, func(b bond) bool { return b.id == id })
	switch {
	case said >= 0: // a repeat
		bonds[said].open++
		return nil
	case req.Op == wire.OpUnbind && bound:
		s.bound[strings.Clone(req.Owner)] = append(bonds, bond{id: id, off: true, open: 1, undone: true})
	case req.Op == wire.OpBind:
		if !bound && len(s.bound) >= s.srv.opt.BoundOwners {
			return wire.Errorf(wire.ResourceExhausted,
				"%d owners are bound to this connection, at most %d are taken", len(s.bound), s.srv.opt.BoundOwners)
		}
		if s.bound == nil {
			s.bound = make(map[string][]bond)
		}
		s.bound[strings.Clone(req.Owner)] = append(bonds, bond{id: id, grace: req.GraceMillis, open: 1, undone: true})
	}
	return nil
}

// boundBy is how an owner hangs on the connection.
func (s *session) boundBy(owner string) (grace uint64, ok bool) {
	bonds := s.bound[owner]
	if len(bonds) == 0 {
		return 0, false
	}
	last := bonds[len(bonds)-1]
	return last.grace, !last.off
}

// bondAnswered takes note of what became of a bind or an unbind: it was carried out, may have
// been, or was not. What was answered before it is repeated, and is not kept, surely was not either, or something later
// was.
func (s *session) bondAnswered(owner string, id uint64, code wire.Code) {
	bonds := s.bound[owner]
	at := slices.IndexFunc(bonds, func(b bond) bool { return b.id == id })
	if at < 0 { // one that came after it was carried out
		return
	}
	b := &bonds[at]
	b.open--
	done := code == wire.OK || code == wire.DeadlineExceeded
	b.undone = b.undone && !done
	switch {
	case !done && b.open > 0: // what became of it the others tell
		return
	case !b.undone: // a repeat's refusal says nothing of the first time
		bonds = slices.Clone(bonds[at:]) // so that what was before it is let go
	default:
		bonds = slices.Delete(bonds, at, at+1)
	}
	if len(bonds) == 0 || len(bonds) == 1 && bonds[0].off {
		delete(s.bound, owner)
		return
	}
	s.bound[strings.Clone(owner)] = bonds
}
