package engine

import (
	"maps"

	"github.com/pathlockd/pathlockd/wire"
)

// Marks answers what operators want of nodes, by node id; a node that is not in it
// has nothing asked of it. The map is the caller's.
func (s *System) Marks() map[string]wire.Drain { return maps.Clone(s.marks) }

// mark notes what an operator wants of a node, in place of what was wanted before.
// To ask again changes nothing.
func (s *System) mark(node string, d wire.Drain) (res wire.Result) {
	was, known := s.marks[node]
	switch {
	case was == d:
		return res
	case d == wire.DrainNone:
		delete(s.marks, node)
	case !known && len(s.marks) >= s.limits.MaxMarks:
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"%d nodes are drained or removed, at most %d are allowed: take back what is asked of nodes that are "+
				"gone (node_resume)",
			len(s.marks), s.limits.MaxMarks))
		return res
	default:
		s.marks[owned(node)] = d
	}
	s.changed[rowMark+node] = true
	return res
}
