package groups

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// The simulated logs. What raft owes (groups/raft) they keep: one order, nothing that was
// applied is lost, read indexes. Everything else they break as often as they can: who
// leads is told late or never, proposals are lost, late, out of order, twice, and their
// answers do not come or are wrong about what became of them.

const (
	simElection = 1500 * time.Millisecond
	simTickEach = 100 * time.Millisecond
)

// simLog is one replicated log: what is committed, and who has it.
type simLog struct {
	w        *world
	shard    uint64
	term     uint64
	leader   *simNode
	entries  [][]byte      // committed; that of index i at i-1
	proposed []simProposed // of each
	reps     []*simRep
	lostAt   time.Duration // since when nobody can commit, -1: somebody can
	outages  []simOutage   // when nobody could, as they came
	electAt  time.Duration
	last     time.Duration // when the last entry is committed, for order
	limbo    []simLimbo    // proposed to who could not commit
	written  time.Duration // when the last entry was committed
	lastID   uint64        // of a replica
	moving   bool          // a replica is being moved
}

// simOutage is a time in which nobody could commit.
type simOutage struct{ from, until time.Duration } // until is -1 while it lasts

// lost notes that nobody can commit from now on.
func (l *simLog) lost() {
	l.lostAt = l.w.now
	if n := len(l.outages); n == 0 || l.outages[n-1].until >= 0 { // else it lasts, and only the leader went now
		l.outages = append(l.outages, simOutage{l.w.now, -1})
	}
}

// regained notes that somebody can again.
func (l *simLog) regained() {
	l.lostAt = -1
	if n := len(l.outages); n > 0 && l.outages[n-1].until < 0 {
		l.outages[n-1].until = l.w.now
	}
}

// stood is for how long nobody could commit since an instant: the log's time stood still then.
func (l *simLog) stood(since time.Duration) (d time.Duration) {
	for _, o := range l.outages {
		until := o.until
		if until < 0 {
			until = l.w.now
		}
		d += max(0, until-max(o.from, since))
	}
	return d
}

// simRep is a node's replica of a log.
type simRep struct {
	log     *simLog
	node    *simNode
	id      uint64
	voter   bool
	m       *replica.Machine // nil while the node is down
	applied uint64
	base    uint64        // entries up to this are compacted away here
	told    uint64        // term whose leader the node was told, or is about to be
	heard   time.Duration // when it hears the last that it was told
	pumping bool
	slow    time.Duration // until then it is slow
	removed bool          // it is no member any more, and its node has not heard of that
	reads   []*simRead
}

// simLimbo is an entry that is not committed, and may be yet.
type simLimbo struct {
	entry []byte
	of    simProposed
	by    *simNode
	life  int
	p     *simPending
}

// simRead is a read index that a replica must reach.
type simRead struct {
	index uint64
	p     *simPending
}

// simPending is a proposal or a read index under way.
type simPending struct{ done, ok bool }

func (p *simPending) Answered() (bool, bool) { return p.done, p.ok }
func (p *simPending) Release()               {}
func (p *simPending) tell(ok bool) {
	if !p.done {
		p.done, p.ok = true, ok
	}
}

// simRaft is raft as a node sees it.
type simRaft struct {
	w    *world
	node *simNode
	life int
	by   map[uint64]*simRaftLog
}

func (r *simRaft) Log(shard uint64) raft.Log {
	l := r.by[shard]
	if l == nil {
		l = &simRaftLog{r, r.w.logs[shard]}
		r.by[shard] = l
	}
	return l
}

func (r *simRaft) Replicas() (all []raft.ReplicaInfo) {
	for _, shard := range r.w.shards {
		if rep := r.w.logs[shard].reps[r.node.index]; rep != nil && rep.m != nil {
			info := raft.ReplicaInfo{Shard: shard, Replica: rep.id, Learner: !rep.voter,
				Voters: make(map[uint64]string)}
			for _, o := range r.w.logs[shard].reps {
				if o != nil && o.voter {
					info.Voters[o.id] = o.node.host
				}
			}
			all = append(all, info)
		}
	}
	return all
}

func (r *simRaft) Campaign(uint64, uint64)         {}
func (r *simRaft) StepDown(uint64, uint64, uint64) {} // its learners come further in any case
func (r *simRaft) Close()                          { r.node.unraft() }

// simRaftLog is one log as a node sees it.
type simRaftLog struct {
	*simRaft
	l *simLog
}

func (r *simRaftLog) rep() *simRep { return r.l.reps[r.node.index] }

func (r *simRaftLog) Start(s datadir.Replica, m *replica.Machine) error {
	rep := r.rep()
	if rep == nil || rep.id != s.ID {
		return raft.ErrNoReplica
	}
	index, err := m.Open(nil)
	if err != nil {
		return err
	}
	if index < rep.base || index > uint64(len(r.l.entries)) {
		r.w.fail("node %d opens log %d at %d: entries up to %d are compacted away, %d are committed",
			r.node.index, r.l.shard, index, rep.base, len(r.l.entries))
	}
	rep.m, rep.applied, rep.told, rep.pumping, rep.reads = m, index, 0, false, nil
	return nil
}

func (r *simRaftLog) Stop(replica uint64) error {
	rep := r.rep()
	if rep == nil || rep.m == nil || rep.id != replica {
		return raft.ErrNoReplica
	}
	m := rep.m
	rep.m, rep.reads, rep.pumping = nil, nil, false
	return m.Close()
}

func (r *simRaftLog) Remove(_ context.Context, replica uint64) error {
	if rep := r.rep(); rep != nil && rep.id == replica {
		r.l.reps[r.node.index] = nil
	}
	return nil
}

func (r *simRaftLog) Bounds() (first, last uint64, m raft.Membership, err error) {
	rep := r.rep()
	if rep == nil {
		return 0, 0, m, raft.ErrNoReplica
	}
	return rep.base + 1, uint64(len(r.l.entries)), m, nil
}

var errNotSimulated = errors.New("not simulated")

func (r *simRaftLog) Members(context.Context) (*raft.Membership, error) { return nil, errNotSimulated }
func (r *simRaftLog) AddLearner(context.Context, uint64, string, uint64) error {
	return errNotSimulated
}
func (r *simRaftLog) Promote(context.Context, uint64, string, uint64) error { return errNotSimulated }
func (r *simRaftLog) Expel(context.Context, uint64, uint64) error           { return errNotSimulated }

func (r *simRaftLog) Await(d time.Duration, wake, stop <-chan struct{}, under ...raft.Pending) {
	r.w.block(simPark{until: r.w.later(d), on: []<-chan struct{}{wake, stop}, under: slices.Clone(under)})
}

func (r *simRaftLog) Propose(entry []byte, within time.Duration) (raft.Pending, error) {
	w, l, rep := r.w, r.l, r.rep()
	if rep == nil || rep.m == nil || r.life != r.node.life {
		return nil, raft.ErrNoReplica
	}
	if w.chance(0.01) {
		return nil, raft.ErrBusy
	}
	p := new(simPending)
	entry = bytes.Clone(entry)
	of := simProposed{w.now, r.node.knows()}
	w.detail("node %d proposes %d bytes %x to log %d", r.node.index, len(entry), xxh3.Hash(entry), l.shard)
	w.after(within, func() { p.tell(false) })
	lost := func() {
		if w.chance(0.5) { // else nobody says so
			w.after(w.between(0, 20*time.Millisecond), func() { p.tell(false) })
		}
	}
	leads := l.leader == r.node
	switch {
	case rep.removed:
		lost()
		return p, nil
	case !leads && (l.leader == nil || !l.valid() || !w.reach(r.node, l.leader)), leads && !l.valid():
		if len(l.limbo) < 64 {
			l.limbo = append(l.limbo, simLimbo{entry, of, r.node, r.life, p})
		}
		if !leads {
			lost()
		}
		return p, nil
	case !leads && w.chance(0.5):
		lost()
		return p, nil
	case w.chance(w.lossy): // who leads says so
		w.after(w.between(0, 20*time.Millisecond), func() { p.tell(false) })
		return p, nil
	}
	at := w.now + w.between(50*time.Microsecond, 3*time.Millisecond)
	if !w.chance(0.02) { // else it may be overtaken
		at = max(at, l.last)
	}
	l.last = max(l.last, at)
	term := l.term
	commit := func() {
		if l.term != term || l.leader == nil || !l.valid() {
			l.limbo = append(l.limbo, simLimbo{entry, of, r.node, r.life, p})
			return
		}
		l.carry(simLimbo{entry, of, r.node, r.life, p})
	}
	w.at(at, commit)
	if w.chance(0.005) {
		w.after(w.between(0, 4*time.Second), func() {
			if l.leader != nil && l.valid() {
				l.commit(entry, of)
			}
		})
	}
	return p, nil
}

// carry commits an entry and has who proposed it told.
func (l *simLog) carry(e simLimbo) {
	w := l.w
	l.commit(e.entry, e.of)
	index := uint64(len(l.entries))
	if e.by.life != e.life {
		return
	}
	if w.chance(0.02) { // it is answered as if it had been lost
		w.after(w.between(0, 20*time.Millisecond), func() { e.p.tell(false) })
		return
	}
	if own := l.reps[e.by.index]; own != nil {
		own.reads = append(own.reads, &simRead{index, e.p})
		l.pump(own)
	}
}
func (r *simRaftLog) ReadIndex(within time.Duration) (raft.Pending, error) {
	w, l, rep := r.w, r.l, r.rep()
	if rep == nil || rep.m == nil {
		return nil, raft.ErrNoReplica
	}
	p := new(simPending)
	w.detail("node %d asks for a read index of log %d", r.node.index, l.shard)
	w.after(within, func() { p.tell(false) })
	if l.leader != nil && l.valid() && w.reach(r.node, l.leader) && !rep.removed && !w.chance(0.02) {
		rep.reads = append(rep.reads, &simRead{uint64(len(l.entries)), p})
		w.after(w.between(50*time.Microsecond, 3*time.Millisecond), func() { l.reached(rep) })
	}
	return p, nil
}

// snapshot compacts the log here, as far as the state is on disk.
func (r *simRaftLog) Snapshot(keep uint64, _ time.Duration) bool {
	rep := r.rep()
	if rep == nil || rep.m == nil {
		return false
	}
	if err := rep.m.Sync(); err != nil {
		r.w.fail("sync: %v", err)
		return false
	}
	if at := rep.m.AppliedIndex(); at > keep {
		rep.base = max(rep.base, at-keep)
	}
	return true
}

// valid says that who leads can commit.
func (l *simLog) valid() bool {
	n := l.leader
	if n == nil || n.still() || n.node == nil {
		return false
	}
	votes, all := 0, 0
	for _, r := range l.reps {
		if r == nil || !r.voter {
			continue
		}
		all++
		if r.m != nil && !r.node.still() && l.w.reach(n, r.node) {
			votes++
		}
	}
	return 2*votes > all
}

// commit appends an entry for good.
func (l *simLog) commit(entry []byte, of simProposed) {
	l.entries, l.proposed = append(l.entries, entry), append(l.proposed, of)
	l.written = l.w.now
	l.w.count.entries++
	for _, r := range l.reps {
		if r != nil {
			l.pump(r)
		}
	}
}

// pump has a replica apply what it can get, a while later.
func (l *simLog) pump(r *simRep) {
	w := l.w
	if r.pumping || r.m == nil || r.removed || r.applied >= uint64(len(l.entries)) {
		return
	}
	r.pumping = true
	d := w.between(20*time.Microsecond, 2*time.Millisecond)
	if w.now < r.slow {
		d = w.between(10*time.Millisecond, 800*time.Millisecond)
	}
	if r.node.witness {
		d = 0
	}
	life := r.node.life
	w.after(d, func() {
		if r.node.life != life || l.reps[r.node.index] != r {
			return
		}
		r.pumping = false
		if r.m == nil {
			return
		}
		if r.node.still() || !r.node.witness && (l.leader == nil || !w.reach(r.node, l.leader)) {
			return // tick tries again
		}
		l.apply(r)
		l.pump(r)
	})
}

// apply has a replica apply some entries.
func (l *simLog) apply(r *simRep) {
	w := l.w
	if r.applied < l.oldest(r) {
		l.install(r)
		return
	}
	most := min(uint64(len(l.entries))-r.applied, uint64(1+w.rng.IntN(8)))
	for range most {
		if w.broken != "" {
			return
		}
		e := []sm.Entry{{Index: r.applied + 1, Cmd: l.entries[r.applied]}}
		if _, err := r.m.Update(e); err != nil {
			w.fail("update: %v", err)
		}
		r.applied++
		w.check.applied(w, r)
		if r.node.witness {
			w.check.followed(w, r)
		}
	}
	l.reached(r)
}

// oldest is the last entry that a replica cannot get any more.
func (l *simLog) oldest(r *simRep) uint64 {
	if l.leader == nil || r.node.witness {
		return 0
	}
	if lead := l.reps[l.leader.index]; lead != nil && lead.m != nil {
		return lead.base
	}
	return 0
}

// reached answers the reads that a replica has applied enough for.
func (l *simLog) reached(r *simRep) {
	if r.m == nil || r.node.still() {
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(q *simRead) bool {
		if q.index <= r.applied {
			q.p.tell(true)
		}
		return q.p.done
	})
}

// install brings a replica up by a snapshot of the leader's.
func (l *simLog) install(r *simRep) {
	w := l.w
	from := l.reps[l.leader.index]
	if from == nil || from.m == nil || from.applied <= r.applied || from == r {
		return
	}
	w.count.installs++
	w.note("log %d: node %d gets a snapshot at %d from node %d, it was at %d", l.shard, r.node.index, from.applied,
		from.node.index, r.applied)
	at, err := from.m.PrepareSnapshot()
	var b bytes.Buffer
	if err == nil {
		err = from.m.SaveSnapshot(at, &b, nil)
	}
	if err == nil {
		err = r.m.RecoverFromSnapshot(&b, nil)
	}
	if err != nil {
		w.fail("snapshot: %v", err)
		return
	}
	r.applied, r.base = from.applied, from.applied
	if got := r.m.AppliedIndex(); got != r.applied {
		w.fail("log %d: node %d is at %d after a snapshot of %d", l.shard, r.node.index, got, r.applied)
	}
	w.check.applied(w, r)
	l.reached(r)
}

// tick looks after the log: elections, who is told, who is behind.
func (l *simLog) tick() {
	w := l.w
	w.after(simTickEach, l.tick)
	if l.valid() {
		l.regained()
		limbo := l.limbo
		l.limbo = nil
		for _, e := range limbo { // a leader that has its majority back commits what it kept
			if e.by == l.leader && e.life == e.by.life || w.chance(0.3) {
				l.carry(e)
			}
		}
	} else if l.lostAt < 0 {
		l.lost()
		l.electAt = w.now + w.between(simElection, 2*simElection)
	}
	if l.lostAt >= 0 && w.now >= l.electAt {
		l.elect(nil)
	}
	for _, r := range l.reps {
		if r == nil || r.m == nil || r.removed || r.node.still() {
			continue
		}
		switch {
		case l.leader != nil && r.told < l.term && w.reach(r.node, l.leader):
			l.tell(r)
		case l.leader == r.node && !l.valid() && w.now-l.lostAt > 2*simElection:
			term := l.term
			l.leader = nil // it steps down, and does not lead the same term again
			l.later(r, func() { r.news(term, 0) })
		}
		l.pump(r)
	}
	for _, n := range w.nodes { // who has no replica hears of the leader from others
		if l.reps[n.index] == nil && n.node != nil && !n.still() && l.leader != nil && w.reach(n, l.leader) &&
			w.chance(0.5) {
			n.node.noteLeader(l.shard, l.term, l.leader.host)
		}
	}
}

// elect makes a replica the leader, which can be.
func (l *simLog) elect(want *simNode) {
	w := l.w
	var can []*simRep
	for _, r := range l.reps {
		if r == nil || !r.voter || r.m == nil || r.node.still() || want != nil && r.node != want {
			continue
		}
		was := l.leader
		l.leader = r.node
		if l.valid() {
			can = append(can, r)
		}
		l.leader = was
	}
	if len(can) == 0 {
		l.electAt = w.now + w.between(simElection/2, simElection)
		return
	}
	r := can[w.rng.IntN(len(can))]
	// What the last leader had under way may have got to the new one.
	for _, e := range l.limbo {
		if w.chance(0.4) {
			l.commit(e.entry, e.of)
		}
	}
	l.limbo = nil
	l.term += uint64(1 + w.rng.IntN(2))
	l.leader = r.node
	l.regained()
	w.count.elections++
	w.trouble = w.now
	w.note("log %d: node %d leads in term %d", l.shard, r.node.index, l.term)
	l.tell(r)
}

// tell has a replica's node hear who leads.
func (l *simLog) tell(r *simRep) {
	r.told = l.term
	term, id := l.term, l.reps[l.leader.index].id
	if l.w.chance(0.3) {
		l.later(r, func() { r.news(term, 0) })
	}
	l.later(r, func() { r.news(term, id) })
}

func (l *simLog) later(r *simRep, do func()) {
	life := r.node.life
	try := func() {
		r.node.awake(func() {
			if r.node.life == life && r.m != nil {
				do()
			}
		})
	}
	r.heard = max(r.heard, l.w.now+l.w.between(0, 30*time.Millisecond)) // in order
	l.w.at(r.heard, try)
}

func (r *simRep) news(term, leader uint64) {
	if r.log.term > term && leader != 0 && r.told > term {
		return
	}
	r.node.node.leaderUpdated(r.log.shard, r.id, term, leader)
}
