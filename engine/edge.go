package engine

import (
	"github.com/pathlockd/pathlockd/wire"
)

// edge is whom an owner says it waits for (contract.md section 9).
type edge struct {
	blocker  string
	path     string // with reason: the edge counts only while that lock blocks
	reason   wire.Reason
	deadline int64 // ms of the lease clock
	timer    *timer
	born     uint32
}

// setEdge sets the owner's one wait edge.
func (s *State) setEdge(cmd *Command) (res wire.Result) {
	req := cmd.Req
	if s.edges.Get(req.Owner) == nil {
		if sum := s.edges.Sum(); int(sum.Count[0]) >= s.cfg.MaxEdges {
			res.Fail(wire.Errorf(wire.ResourceExhausted,
				"wait edge: this group holds %d, at most %d are allowed", sum.Count[0], s.cfg.MaxEdges))
			return res
		}
		key := owned(req.Owner)
		e := s.edges.Insert(s.w, key, 0, 0)
		e.timer, e.born = s.deadlines.timer(timeEdge, key), s.w.Mark()
	}
	e := s.edges.Edit(s.w, req.Owner)
	e.blocker, e.path, e.reason = owned(req.Blocker), owned(req.Path), req.Reason
	e.deadline = s.now + int64(req.TTLMillis)
	s.deadlines.arm(e.timer, e.deadline)
	return res
}

// clearEdge drops the owner's wait edge, if it has one.
func (s *State) clearEdge(owner string) wire.Result {
	if e := s.edges.Get(owner); e != nil {
		s.bury(tableEdge, owner, e.born)
		s.deadlines.free(e.timer)
		s.edges.Remove(s.w, owner)
	}
	return wire.Result{}
}
