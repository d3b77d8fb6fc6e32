package sim

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// carry carries a step out, and tells the node's scheduler when it has ended.
func (w *World) carry(n *node, l *raftLog, s place.Step) {
	sched, crashes := n.sched, w.crashes
	done := func() {
		sched.Done(w.now, l.id)
		if n.sched == sched {
			n.wake()
		}
	}
	if s.Kind == place.Transfer {
		w.handOver(l, s, w.now+transferWithin, done)
		return
	}
	w.after(changeTime, func() {
		if !w.change(n, l, s, crashes) {
			w.after(changeWithin-changeTime, done)
			return
		}
		done()
	})
}

// change does to a log what raft would: nothing if its membership is of another version,
// or without a leader.
func (w *World) change(n *node, l *raftLog, s place.Step, crashes int) bool {
	if l.leader == nil || l.leader.node != n || !l.serving || s.Version != l.version || !n.up {
		return false
	}
	live := l.majority()
	r := l.replica(s.Replica)
	switch s.Kind {
	case place.Add:
		l.replicas = append(l.replicas, &replica{node: w.named[s.Node], id: s.Replica})
		w.Stats.Added++
	case place.Promote:
		r.voting = true
		w.Stats.Promoted++
	case place.Remove:
		l.replicas = slices.DeleteFunc(l.replicas, func(x *replica) bool { return x == r })
		l.removed = append(l.removed, r.id)
		w.stopReplica(r)
		w.Stats.Removed++
	}
	l.version++
	w.Stats.LastVoter = w.now
	w.checkChange(l, s, live, crashes)
	l.look()
	return true
}

// handOver asks raft again and again to hand a leadership over.
func (w *World) handOver(l *raftLog, s place.Step, until time.Duration, done func()) {
	from, term := l.leader, l.term
	w.after(transferEvery, func() {
		to := l.replica(s.Replica)
		switch {
		case l.leader != from || l.term != term || w.now >= until:
			done()
		case w.rand.IntN(transferOdds) > 0 || to == nil || !l.wins(to) || !w.reach(from.node, to.node):
			w.handOver(l, s, until, done)
		default:
			w.Stats.Transfers++
			l.lead(to)
			term := l.term
			w.after(transferTime, func() {
				if l.leader == to && l.term == term {
					l.serve()
				}
				done()
			})
		}
	})
}
