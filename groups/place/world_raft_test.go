package place

import "slices"

// raftLog is what raft keeps of a log.
type raftLog struct {
	id       uint64
	version  uint64
	replicas []Replica
	removed  []uint64
	used     map[uint64]bool
	leader   uint64 // 0: none
	misses   int    // faults in a row
}

// flight is a step under way.
type flight struct {
	by      *host
	sched   *Scheduler
	log     *raftLog
	step    Step
	ends    int // when the node is told
	lands   int // when it takes effect; 0: never
	crashes int // before it
}

// intact says whether a replica's disk is still there, live whether it runs.
func (w *world) intact(r Replica) bool { return w.host(r.Node).disk == r.Disk }

func (w *world) live(r Replica) bool { return w.intact(r) && w.host(r.Node).up }

// voters counts a log's voters, and those that fit.
func (l *raftLog) voters(fits func(Replica) bool) (n, fitting int) {
	for _, r := range l.replicas {
		if r.Voting {
			n++
			if fits(r) {
				fitting++
			}
		}
	}
	return n, fitting
}

// majority says whether most voters of a log fit.
func (l *raftLog) majority(fits func(Replica) bool) bool {
	n, fitting := l.voters(fits)
	return 2*fitting > n
}

func (l *raftLog) replica(id uint64) *Replica {
	for i := range l.replicas {
		if l.replicas[i].ID == id {
			return &l.replicas[i]
		}
	}
	return nil
}

// elect gives a log a leader if it has none and can have one.
func (w *world) elect(l *raftLog) {
	if r := l.replica(l.leader); r != nil && r.Voting && w.live(*r) && l.majority(w.live) {
		return
	}
	l.leader = 0
	if !l.majority(w.live) || w.faults && w.rand.IntN(2) == 0 {
		return
	}
	// Raft elects who has all that a majority has: here, who applied the most.
	best := Replica{}
	for _, i := range w.rand.Perm(len(l.replicas)) {
		if r := l.replicas[i]; r.Voting && w.live(r) && r.Applied >= best.Applied {
			best = r
		}
	}
	l.leader = best.ID
}

// work applies entries: the leader some, the others what they can.
func (w *world) work(l *raftLog) {
	leader := l.replica(l.leader)
	if leader == nil {
		return
	}
	if w.faults {
		leader.Applied += uint64(w.rand.IntN(400))
	}
	for i := range l.replicas {
		if r := &l.replicas[i]; w.live(*r) {
			r.Applied = min(leader.Applied, r.Applied+uint64(w.fill)+leader.Applied/8)
		}
	}
}

// seen is a log as its leader tells it.
func (l *raftLog) seen() *Log {
	return &Log{ID: l.id, Version: l.version, Self: l.leader, Applied: l.replica(l.leader).Applied,
		Replicas: slices.Clone(l.replicas), Removed: l.removed}
}

// begin sends a step off. With faults some take long, some fail, some are lost, and
// some take effect after the node has given them up; but no more than three in a row.
func (w *world) begin(h *host, l *raftLog, s Step) {
	f := &flight{by: h, sched: h.sched, log: l, step: s, ends: w.now + 1, lands: w.now + 1, crashes: w.crashes}
	if w.faults {
		f.ends = w.now + 1 + w.rand.IntN(4)
		f.lands = f.ends
		if w.rand.IntN(3) == 0 && l.misses < 3 {
			l.misses++
			f.lands = []int{0, f.ends + w.rand.IntN(20)}[w.rand.IntN(2)]
		} else {
			l.misses = 0
		}
	}
	h.flying++
	w.flights = append(w.flights, f)
}

// land lets steps take effect and tells their nodes.
func (w *world) land() {
	for _, f := range w.flights {
		if f.lands == w.now {
			w.apply(f)
		}
		if f.ends == w.now {
			f.sched.Done(w.clock(), f.log.id)
			if f.by.sched == f.sched {
				f.by.flying--
			}
		}
	}
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f.ends <= w.now && f.lands <= w.now })
}

// apply does to a log what raft would: it refuses a change of another version, and
// has no effect without a majority.
func (w *world) apply(f *flight) {
	l, s := f.log, f.step
	if s.Version != l.version || !l.majority(w.live) || l.leader == 0 {
		return
	}
	r := l.replica(s.Replica)
	switch s.Kind {
	case Add:
		if l.used[s.Replica] {
			w.fail("log %d: replica id %d is used twice", l.id, s.Replica)
		}
		l.used[s.Replica] = true
		l.replicas = append(l.replicas, Replica{ID: s.Replica, Node: s.Node, Disk: s.Disk, Applied: 1})
	case Promote:
		r.Voting = true
	case Remove:
		l.replicas = slices.DeleteFunc(l.replicas, func(r Replica) bool { return r.ID == s.Replica })
		l.removed = append(l.removed, s.Replica)
		if l.leader == s.Replica {
			l.leader = 0
		}
	case Transfer:
		if !w.live(*r) || s.Replica == l.leader {
			return
		}
		l.leader = s.Replica
	}
	w.done[s.Kind]++
	if s.Kind != Transfer {
		l.version++
	}
	if f.crashes == w.crashes && !l.majority(w.live) {
		w.fail("%v took the live majority: %+v", s, l.replicas)
	}
}
