package place

import "slices"

// election gives each log a leader among its voters so that every node leads the
// mean number of logs, rounded down or up.
//
// That this can always be done follows from the voters being spread so: let each
// voter lead 1/V of each log it holds. Then every node leads between floor and
// ceiling of the mean, because it holds between V times that many rounded down and
// up; and a flow that keeps whole bounds in fractions also keeps them in whole
// numbers. Chains of hand-overs (augmenting paths) find it.
type election struct {
	s    *seats
	of   []int   // leader of each log, -1: none yet
	logs [][]int // that each node leads
}

// leaders is who should lead each log.
func (s *seats) leaders() []int {
	e := &election{s: s, of: make([]int, len(s.of)), logs: make([][]int, len(s.load))}
	for l := range e.of {
		e.of[l] = -1
	}
	for _, limit := range []int{len(e.of) / len(e.logs), (len(e.of) + len(e.logs) - 1) / len(e.logs)} {
		for _, b := range s.bids {
			l, n := int(b.log), int(b.node)
			if e.of[l] < 0 && len(e.logs[n]) < limit && s.holds(l, n) {
				e.lead(l, n)
			}
		}
		for l := range e.of {
			if e.of[l] < 0 {
				e.chain(l, limit)
			}
		}
	}
	return e.of
}

func (e *election) lead(log, node int) {
	if old := e.of[log]; old >= 0 {
		e.logs[old] = slices.DeleteFunc(e.logs[old], func(l int) bool { return l == log })
	}
	e.of[log] = node
	e.logs[node] = append(e.logs[node], log)
}

// chain finds a leader for a log whose voters all lead as many as they may: the
// shortest chain of voters that each hand one of their logs to the next, up to one
// with room. Without such a chain the log stays without a leader at this limit.
func (e *election) chain(log, limit int) {
	by := make([]int, len(e.logs)) // log by which a node was reached, +1
	var queue []int
	reach := func(l int) {
		for _, n := range e.s.of[l] {
			if by[n] == 0 {
				by[n] = l + 1
				queue = append(queue, n)
			}
		}
	}
	reach(log)
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		if len(e.logs[n]) >= limit {
			for _, l := range e.logs[n] {
				reach(l)
			}
			continue
		}
		for {
			l := by[n] - 1
			before := e.of[l]
			e.lead(l, n)
			if l == log {
				return
			}
			n = before
		}
	}
}
