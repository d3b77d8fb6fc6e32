package cluster

import "testing"

// TestLadder: each node of one disk runs short with those before it, and not before, and has
// room again afterwards.
func TestLadder(t *testing.T) {
	const gib = 1 << 30
	for _, free := range []uint64{18 * gib, 30 * gib, 500 * gib} {
		for _, nodes := range []int{1, 2, 3} {
			l := newLadder(free, nodes)
			if l.step == 0 {
				t.Fatalf("%d bytes are too few for %d", free, nodes)
			}
			for _, others := range []uint64{0, l.step / 4} { // that others take meanwhile
				for node := range nodes {
					if enough := l.reserve(node) / 4 * 5; nodes > 1 && free-others < enough {
						t.Errorf("of %d bytes %d are left: node %d of %d has room above %d", free, free-others, node,
							nodes, enough)
					}
					for filled := range nodes {
						left := free - others - l.taken(filled)
						if short := left < l.reserve(node); short != (node <= filled) {
							t.Errorf("of %d bytes %d are left, filled for node %d of %d: node %d is short: %v", free,
								left, filled, nodes, node, short)
						}
					}
				}
			}
		}
	}
	for _, nodes := range []int{1, 3} {
		if l := newLadder(9*gib, nodes); l.step != 0 {
			t.Errorf("%d nodes: a step of %d bytes", nodes, l.step)
		}
	}
}
