package sim

import (
	"fmt"

	"github.com/pathlockd/pathlockd/groups/place"
)

// maxViolations is how many are told; the others are counted.
const maxViolations = 20

func (w *World) violation(format string, args ...any) {
	w.Stats.violationsN++
	if len(w.Stats.Violations) < maxViolations {
		w.Stats.Violations = append(w.Stats.Violations, fmt.Sprintf("%v: ", w.now)+fmt.Sprintf(format, args...))
	}
}

// checkChange holds a change that took effect against what is true: it must not have
// taken the majority that the log had, unless somebody died while it was under way.
func (w *World) checkChange(l *raftLog, s place.Step, live bool, crashes int) {
	if live && !l.majority() && crashes == w.crashes {
		w.violation("%v: it took the log's live majority", s)
	}
	nodes := make(map[*node]bool)
	for _, r := range l.replicas {
		if nodes[r.node] {
			w.violation("%v: node %s has two replicas of the log", s, r.node.name)
		}
		nodes[r.node] = true
	}
}

// checkOpen holds what a node has under way against its limit.
func (w *World) checkOpen(n *node) {
	changes, transfers := n.sched.Open()
	if changes > w.c.Concurrent || transfers > w.c.Concurrent {
		w.violation("%s changes %d logs and hands %d over, and may %d", n.name, changes, transfers, w.c.Concurrent)
	}
	w.Stats.OpenNode = max(w.Stats.OpenNode, changes)
	if changes > 0 {
		all := 0
		for _, o := range w.nodes {
			if o.up {
				c, _ := o.sched.Open()
				all += c
			}
		}
		w.Stats.OpenAll = max(w.Stats.OpenAll, all)
	}
}

// Spread is how many voters and leaderships nodes that are up have.
type Spread struct {
	VotersMin, VotersMax int
	LeadsMin, LeadsMax   int
	Up                   int
}

// Spread counts them.
func (w *World) Spread() Spread {
	voters, leads := make(map[*node]int), make(map[*node]int)
	for _, l := range w.logs {
		for _, r := range l.replicas {
			if r.voting {
				voters[r.node]++
			}
		}
		if l.leader != nil {
			leads[l.leader.node]++
		}
	}
	s := Spread{VotersMin: len(w.logs), LeadsMin: len(w.logs)}
	for _, n := range w.nodes {
		if n.up {
			s.Up++
			s.VotersMin, s.VotersMax = min(s.VotersMin, voters[n]), max(s.VotersMax, voters[n])
			s.LeadsMin, s.LeadsMax = min(s.LeadsMin, leads[n]), max(s.LeadsMax, leads[n])
		}
	}
	return s
}

// checkSpread says that a cluster at rest is even.
func (w *World) checkSpread() {
	if s := w.Spread(); s.VotersMax-s.VotersMin > 1 || s.LeadsMax-s.LeadsMin > 1 {
		w.violation("nodes have %d to %d voters and %d to %d leaderships", s.VotersMin, s.VotersMax,
			s.LeadsMin, s.LeadsMax)
	}
}
