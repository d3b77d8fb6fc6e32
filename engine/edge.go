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
	of       uint64 // the session that set it last (markOf), 0 for none
}

// setEdge sets the owner's one wait edge.
func (s *State) setEdge(cmd *Command) (res wire.Result) {
	req, of := cmd.Req, markOf(cmd.Caller.Session)
	old := s.edges.Get(req.Owner)
	if n := s.edgers[of]; of != 0 && n >= share(s.cfg.MaxEdges) && (old == nil || old.of != of) {
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"wait edge: this session has %d in this group, at most %d are allowed, a quarter of all", n,
			share(s.cfg.MaxEdges)))
		return res
	}
	if old == nil {
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
	s.edgers.add(e.of, -1)
	s.edgers.add(of, 1)
	e.of = of
	e.blocker, e.path, e.reason = owned(req.Blocker), owned(req.Path), req.Reason
	e.deadline = s.now + int64(req.TTLMillis)
	s.deadlines.arm(e.timer, e.deadline)
	return res
}

// clearEdge drops the owner's wait edge, if it has one.
func (s *State) clearEdge(owner string) wire.Result {
	if e := s.edges.Get(owner); e != nil {
		s.addTombstone(tableEdge, owner, e.born)
		s.deadlines.free(e.timer)
		s.edgers.add(e.of, -1)
		s.edges.Remove(s.w, owner)
	}
	return wire.Result{}
}
