package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// raftLog is what raft keeps of a log.
type raftLog struct {
	w        *World
	id       uint64
	version  uint64 // of the membership
	term     uint64
	replicas []*replica
	removed  []uint64
	leader   *replica // nil: none
	serving  bool     // the leader takes commands
	lost     time.Duration
	next     *replica // who will be elected, if nothing happens
}

// replica is a member of a log.
type replica struct {
	node    *node
	id      uint64
	voting  bool
	running bool // its node knows of it
	filled  bool // it has what a majority has
	filling bool
}

// on is the replica on a node, nil if there is none.
func (l *raftLog) on(n *node) *replica {
	for _, r := range l.replicas {
		if r.node == n {
			return r
		}
	}
	return nil
}

func (l *raftLog) replica(id uint64) *replica {
	for _, r := range l.replicas {
		if r.id == id {
			return r
		}
	}
	return nil
}

// sound says whether a replica can vote and has everything.
func (r *replica) sound() bool { return r.node.up && r.running && r.filled }

// wins says whether a replica can be elected: most voters hear it.
func (l *raftLog) wins(r *replica) bool {
	if !r.voting || !r.sound() {
		return false
	}
	voters, hear := 0, 0
	for _, other := range l.replicas {
		if other.voting {
			voters++
			if other.sound() && l.w.reach(r.node, other.node) {
				hear++
			}
		}
	}
	return 2*hear > voters
}

// majority says whether anybody can be elected.
func (l *raftLog) majority() bool { return slices.ContainsFunc(l.replicas, l.wins) }

// look deposes a leader that most voters do not hear, and has another one elected.
func (l *raftLog) look() {
	if l.leader != nil && (!slices.Contains(l.replicas, l.leader) || !l.wins(l.leader)) {
		if l.serving {
			l.lost = l.w.now
		}
		l.lead(nil)
	}
	if l.leader == nil && (l.next == nil || !l.wins(l.next)) {
		l.stand()
	}
}

// lead makes a replica the leader, or nobody.
func (l *raftLog) lead(r *replica) {
	if old := l.leader; old != nil {
		old.node.leads = slices.DeleteFunc(old.node.leads, func(x *raftLog) bool { return x == l })
	}
	l.leader, l.serving, l.next = r, false, nil
	l.w.stopLog(l)
	if r != nil {
		l.term++
		i, _ := slices.BinarySearchFunc(r.node.leads, l, func(a, b *raftLog) int { return cmp.Compare(a.id, b.id) })
		r.node.leads = slices.Insert(r.node.leads, i, l)
	}
}

// stand has the voters wait for their election timeouts. dragonboat draws each from one
// to two times electionMin, in whole ticks, from when it last heard the leader.
func (l *raftLog) stand() {
	type stander struct {
		r  *replica
		at time.Duration
	}
	var all []stander
	w := l.w
	const ticks = int64(electionMin / raftTick)
	for _, r := range l.replicas {
		if l.wins(r) {
			at := time.Duration(ticks+w.rand.Int64N(ticks))*raftTick + w.chance(raftTick) - w.chance(heartbeat)
			all = append(all, stander{r, w.now + at})
		}
	}
	l.next = nil
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b stander) int { return cmp.Compare(a.at, b.at) })
	first := all[0]
	l.next = first.r
	w.at(first.at, func() {
		if l.leader != nil || l.next != first.r {
			return
		}
		if len(all) > 1 && all[1].at-first.at < voteTime {
			w.Stats.Splits++
			l.stand()
			return
		}
		w.after(voteTime, func() { l.elect(first.r) })
	})
}

// elect gives the log a leader, which takes commands once its first entry is committed:
// a node that takes over many logs at once commits that of one after the other.
func (l *raftLog) elect(r *replica) {
	if l.leader != nil || l.next != r {
		return
	}
	if !l.wins(r) {
		l.stand()
		return
	}
	w := l.w
	l.lead(r)
	r.node.leaderEpochs = max(r.node.leaderEpochs, w.now) + leaderEpochEach
	term := l.term
	w.at(r.node.leaderEpochs+leaderEpochTime, func() {
		if l.term != term || l.leader != r {
			return
		}
		w.Stats.Elections++
		w.Stats.ElectedAt = append(w.Stats.ElectedAt, w.now)
		w.Stats.Leaderless = append(w.Stats.Leaderless, w.now-l.lost)
		l.serve()
	})
}

// serve has a leader begin its work: it tells every node.
func (l *raftLog) serve() {
	w := l.w
	l.serving = true
	w.Stats.LastLeader = w.now
	for _, n := range w.nodes {
		if n != l.leader.node && w.reach(n, l.leader.node) {
			w.Stats.Notices++
		}
	}
	w.leads()
	l.leader.node.wake()
}

// seen is the log as its leader tells of it.
func (l *raftLog) seen() *place.Log {
	out := &place.Log{ID: l.id, Version: l.version, Self: l.leader.id, Applied: fullyApplied, Removed: l.removed}
	for _, r := range l.replicas {
		told := place.Replica{ID: r.id, Node: r.node.name, Disk: r.node.disk, Voting: r.voting}
		if r.sound() && l.w.reach(l.leader.node, r.node) {
			told.Applied = fullyApplied
		}
		out.Replicas = append(out.Replicas, told)
	}
	return out
}
