package groups

import "time"

// Replicas that come and go in the simulation, as a leader has it on a cluster that is up (control, reconcile.go): a
// learner is added under an id that was never used, catches up, by a snapshot where the log begins later, becomes a
// voter, and another replica is removed, whose node hears of that late. Each node can crash, stand still or be stopped
// at each step.

// simMoveEach is how often it is looked whether the next step of a move can be done.
const simMoveEach = 200 * time.Millisecond

// moves has the log's replica on one machine replaced by one on another, which has none; or by a new one on the same.
func (l *simLog) moves(from, to *simNode) {
	w := l.w
	old := l.reps[from.index]
	if l.moving || old == nil || from.witness || to.witness || from != to && l.reps[to.index] != nil {
		return
	}
	l.moving = true
	w.note("log %d: its replica moves from node %d to node %d", l.shard, from.index, to.index)
	l.lastID++
	fresh := &simRep{log: l, node: to, id: l.lastID}
	steps := []func() bool{
		func() bool { return l.add(fresh) },
		func() bool { return l.settles(fresh) },
		func() bool { return l.promote(fresh) },
	}
	away := []func() bool{func() bool { return l.expel(old) }, func() bool { return l.drops(old) }}
	if from == to {
		steps = append(away, steps...)
	} else {
		steps = append(steps, away...)
	}
	var look func()
	look = func() {
		for len(steps) > 0 && steps[0]() {
			steps = steps[1:]
		}
		if len(steps) > 0 {
			w.after(simMoveEach, look)
			return
		}
		l.moving = false
		w.count.joins++
	}
	w.after(0, look)
}

// add has a member: it may not run yet.
func (l *simLog) add(r *simRep) bool {
	if !l.valid() {
		return false
	}
	l.w.note("log %d: node %d is given replica %d", l.shard, r.node.index, r.id)
	l.reps[r.node.index] = r
	for _, n := range l.w.nodes {
		if n.node != nil {
			n.node.book.Add(l.shard, r.id, r.node.host)
		}
	}
	return true
}

// settles has a member run that was added, wherever its node was interrupted.
func (l *simLog) settles(r *simRep) bool {
	if n := r.node; r.m == nil && n.node != nil && !n.halting && !n.still() && l.w.chance(0.5) {
		(&simTasks{l.w, n, n.life}).run(func() {
			if err := n.node.addReplica(l.shard, r.id); err != nil {
				l.w.fail("node %d cannot start replica %d of log %d: %v", n.index, r.id, l.shard, err)
			}
		})
	}
	return r.m != nil
}

// promote has a learner vote that has caught up.
func (l *simLog) promote(r *simRep) bool {
	if r.m == nil {
		return l.settles(r)
	}
	if !l.valid() || r.applied+5 < uint64(len(l.entries)) {
		return false
	}
	l.w.note("log %d: replica %d on node %d votes", l.shard, r.id, r.node.index)
	r.voter = true
	return true
}

// expel has a replica be no member any more. It is not the leader's, and the others can commit without it.
func (l *simLog) expel(r *simRep) bool {
	if !l.valid() || l.leader == r.node {
		return false
	}
	if r.voter = false; !l.valid() {
		r.voter = true
		return false
	}
	l.w.note("log %d: replica %d on node %d is removed", l.shard, r.id, r.node.index)
	r.removed = true
	return true
}

// drops has a node delete a replica that was removed, once it hears of it.
func (l *simLog) drops(r *simRep) bool {
	n := r.node
	if n.node == nil || n.halting || n.still() || l.w.chance(0.7) {
		return false
	}
	if l.reps[n.index] == r {
		(&simTasks{l.w, n, n.life}).run(func() {
			if err := n.node.dropReplica(l.shard, r.id); err != nil {
				l.w.fail("node %d cannot delete replica %d of log %d: %v", n.index, r.id, l.shard, err)
			}
		})
	}
	return l.reps[n.index] != r
}
