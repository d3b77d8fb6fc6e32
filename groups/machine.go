package groups

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// systemGroup is the number by which entries name the system group.
const systemGroup = 0xffff

// everyGroup stands for all groups of the log.
const everyGroup = 0xfffe

// machine is the replicated state of one log: the virtual groups that live in it,
// its lease clock, its leader epoch and its sessions. dragonboat applies entries to it.
//
// What Update changes is guarded by mu; Update is the only writer, but for
// snapshots, which exclude it. Readers take views (view), whose use needs no lock.
type machine struct {
	node    *Node
	shard   uint64
	replica uint64 // raft's id of it
	store   *store
	log     *slog.Logger
	clock   Clock
	driver  *shardLog // who proposes; answers go to its callers

	mu          sync.Mutex
	groups      map[uint16]*group
	order       []*group // all that live in the log, by number: every replica goes through the same
	system      *engine.System
	paged       pagedRoutes
	leaderEpoch leaderEpoch
	limits      limits
	stated      bool // limits stand in the log
	number      uint64
	wall        int64
	sessions    *sessions
	applied     uint64
	commands    uint64 // since the last checkpoint
	owners      map[string]*presence
	out         engine.Output
	beside      beside // nil, but in tests
	told        int    // of out.Answers, how many were given

	published int // of out.Events, how many were told already
	leases    int // and of out.Told
	fed       int // bytes of what it says of leases that were sent to who is fed

	done   []engine.Done
	reader batchReader
	flush  repliers

	now  atomic.Int64 // of the lease clock, ms, for views to show remaining times by
	time struct {     // read by the proposer
		sync.Mutex
		clock leaseClock
		armed int64 // next deadline, ms of the lease clock; 0: none
	}

	checkpoints sync.Mutex      // one at a time
	owed        []*sessionImage // that were taken and are not on disk; under checkpoints
	writes      uint64          // of checkpoints and installations; under checkpoints
	gone        bool            // its rows are deleted, or about to be; under checkpoints

	installing atomic.Bool   // the disk is not state: a snapshot is being installed, or was in part (install.go)
	installs   atomic.Uint64 // counts snapshots

	awaited bool          // the node's start waits for it
	loaded  atomic.Bool   // Open has read the state back
	voting  atomic.Bool   // it is known to vote in its log
	closed  chan struct{} // closed when raft lets go of it
}

func newMachine(n *Node, shard, replica uint64) *machine {
	m := &machine{node: n, shard: shard, replica: replica, store: n.store, log: n.log.With("log", shard), clock: n.clock, closed: make(chan struct{})}
	if s := n.cfg.seams; s != nil {
		m.beside = s.beside
	}
	m.empty()
	return m
}

// empty makes the machine one that nothing was applied to.
func (m *machine) empty() {
	// All groups are made at once, and none by what asks for it: entries that are for all
	// groups of the log (everyGroup) must mean the same on every replica.
	m.groups = make(map[uint16]*group)
	m.order = nil
	for _, number := range m.node.groupsOf(m.shard) {
		g := &group{number: number, m: m}
		g.state = engine.New(m.engineConfig(), &fences{m.store, number, m.fail}, g)
		m.groups[number], m.order = g, append(m.order, g)
	}
	m.sessions = newSessions()
	m.owners = make(map[string]*presence)
	m.leaderEpoch, m.number, m.applied = leaderEpoch{}, 0, 0
	m.limits, m.stated = defaultLimits(), false
	if m.shard == systemShard {
		m.system = engine.NewSystem()
	}
}

func (m *machine) engineConfig() engine.Config {
	c := engine.DefaultConfig()
	c.Algorithm, c.Segments = m.node.cfg.Algorithm, m.node.cfg.Segments // fixed at birth
	c.LogNow, c.Cut = &m.now, cut
	return c
}

// fail ends the process: the state can no longer be trusted to be what the log
// says.
func (m *machine) fail(err error) { m.node.cfg.lastWord(m.log, err) }

// stamp is the time to propose an entry with, under a leader epoch.
func (m *machine) stamp(own leaderEpoch, mono time.Duration) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.stamp(own, mono)
}

// appliedTime is the time by which nothing more has passed than at what was applied last.
func (m *machine) appliedTime() int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.now
}

// nextDeadline is when something in the log ends with time, by the monotonic clock and by
// the lease clock; 0 when nothing does.
func (m *machine) nextDeadline() (at time.Duration, deadline int64) {
	m.time.Lock()
	defer m.time.Unlock()
	if m.time.armed == 0 {
		return 0, 0
	}
	left := time.Duration(m.time.armed-m.time.clock.now) * time.Millisecond
	return m.time.clock.at + left, m.time.armed
}

// Update implements statemachine.IOnDiskStateMachine.
func (m *machine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	m.mu.Lock()
	if len(entries) > 0 {
		m.goesOn(entries[0].Index)
	}
	for i := range entries {
		m.apply(entries[i].Index, entries[i].Cmd)
		entries[i].Result = sm.Result{}
	}
	due := m.commands >= checkpointCommands
	m.mu.Unlock()
	m.flush.flush()
	if due {
		m.node.checkpointSoon()
	}
	return entries, nil
}

// apply carries one entry out.
func (m *machine) apply(index uint64, data []byte) {
	m.applied = index
	r, kind, err := openEntry(data)
	if err == nil && kind == entryLeaderEpoch {
		o, l, stated := r.leaderEpochEntry()
		if err = r.err; err == nil {
			m.beginLeaderEpoch(o, l, stated)
		}
	} else if err == nil && (kind == entryBatch || kind == entryNext) {
		if err = m.reader.open(r, kind); err == nil {
			m.batch(index)
			err = m.reader.err
		}
	} else if err == nil {
		err = fmt.Errorf("groups: log entry of unknown kind %d", kind)
	}
	if err != nil {
		m.fail(fmt.Errorf("entry %d of log %d: %w", index, m.shard, err))
	}
}

// beginLeaderEpoch lets a new leader's batches in and shuts out all earlier ones. From now on
// the limits count that it stated.
func (m *machine) beginLeaderEpoch(o leaderEpoch, l limits, stated bool) {
	if o.term <= m.leaderEpoch.term {
		return
	}
	m.leaderEpoch, m.number = o, 0
	if stated {
		m.adopt(l)
	}
	if engine.Planted == engine.PlantLostWaiter {
		for _, g := range m.order {
			g.state.LoseWaiter()
		}
	}
	if m.driver != nil {
		var found *openCalls
		if o.incarnation == m.driver.process {
			found = m.openCalls(o.term)
		}
		m.driver.leaderEpochBegan(o, found)
	}
	if m.system != nil {
		m.node.policyWork()
	}
}

// batch applies the batch that reader stands at, if its leader epoch is the current one
// and its number counts (entry.go).
func (m *machine) batch(index uint64) {
	h := &m.reader.head
	if h.leaderEpoch != m.leaderEpoch || h.number <= m.number {
		return
	}
	own := m.driver != nil && h.leaderEpoch.incarnation == m.driver.process
	if h.next && h.number != m.number+1 {
		if own {
			m.driver.tear(h.leaderEpoch.term, h.number)
		}
		return
	}
	var f *flight
	switch {
	case own && h.next:
		f = m.driver.landing(h.leaderEpoch, h.number)
	case own:
		m.driver.mended(h.leaderEpoch, h.number)
	}
	m.number, m.wall = h.number, h.wall
	clock := engine.Clock{Now: m.advance(h.leaderEpoch, h.stamp), Wall: h.wall}
	m.sessions.expire(clock.Now, &m.limits)
	m.out.Reset()
	m.told, m.published, m.leases, m.fed = 0, 0, 0, 0
	if h.stamp != still { // what is over and could not end yet would be granted to waits that end with this entry
		m.expire(clock)
	}
	m.answers(clock)
	for i := 0; m.reader.next(); i++ {
		res := m.command(clock)
		m.commands++
		if f != nil && f.parts[i] != nil {
			m.tellEvents()
			m.node.deliver(f.parts[i], &res, &m.flush)
		}
		if engine.Planted != engine.PlantLateAnswers {
			m.answers(clock)
		}
	}
	m.answers(clock)
	m.tellLeases()
	m.node.hub.publish(m.shard, index, m.out.Events, true)
	m.arm()
}

// tellEvents publishes the events of the entry in hand so far. Whoever is answered may subscribe at once, and is told
// only of what comes from then on: so what a command did is published before its answer.
func (m *machine) tellEvents() {
	m.tellLeases()
	if n := len(m.out.Events); n > m.published {
		m.published = n
		m.node.hub.publish(m.shard, m.applied, m.out.Events, false)
	}
}

// tellLeases tells what the entry in hand says of leases so far.
func (m *machine) tellLeases() {
	if told := m.out.Told[m.leases:]; len(told) > 0 {
		m.leases = len(m.out.Told)
		m.fed = m.node.hub.tellFurther(m.shard, told, m.fed)
	}
}

func (m *machine) advance(o leaderEpoch, stamp int64) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	now := m.time.clock.advance(o, stamp, m.clock.Mono())
	m.now.Store(now)
	return now
}

// expire ends what ends with time, in every group and in the system group, as far as one entry may. What is left
// blocks nobody, and has the next entry come at once.
func (m *machine) expire(c engine.Clock) {
	budget := m.limits.ReapBudget
	if m.system != nil {
		budget -= m.system.Expire(c.Now, budget)
	}
	for i := range m.order {
		g := m.order[(int(m.number%uint64(len(m.order)))+i)%len(m.order)] // each has its turn
		if budget > 0 && g.due != 0 && g.due <= c.Now {
			budget -= g.expire(c, budget)
			g.stepped()
		}
	}
}

// arm publishes the next deadline.
func (m *machine) arm() {
	next := int64(0)
	if m.system != nil {
		next, _ = m.system.NextDeadline()
	}
	for _, g := range m.order {
		if g.due != 0 && (next == 0 || g.due < next) {
			next = g.due
		}
	}
	m.time.Lock()
	m.time.armed = next
	m.time.Unlock()
}

// answers ends the open calls that the batch's steps decided.
func (m *machine) answers(clock engine.Clock) {
	for ; m.told < len(m.out.Answers); m.told++ {
		a := &m.out.Answers[m.told]
		m.remember(a, clock.Now)
		if m.driver == nil {
			continue
		}
		m.tellEvents()
		if p := m.node.waits.answers(m.driver, a); p != nil {
			p.answer(&a.Result, &m.flush)
		}
	}
}

// remember keeps the answer to a wait that is over, for a repeat of its request.
func (m *machine) remember(a *engine.Answer, now int64) {
	s := m.sessions.byID[a.Caller.Session]
	if s == nil {
		return // its row was of a build that did not keep it
	}
	m.sessions.waits(s, max(0, s.waits-1), now)
	m.sessions.changes(s)
	m.sessions.heard(s, now)
	if m.placedAnew(s, a) {
		return
	}
	end := ended
	if a.Left {
		end = left
	}
	s.add(answered{
		id: a.Caller.ID, op: wire.OpAcquire, status: a.Result.Status, code: a.Result.Code, reason: a.Result.Reason,
		token: a.Result.Token, end: end,
	}, &m.limits)
}

// placedAnew says that a wait which came to nothing is one that a move left behind: its request was asked
// again in the namespace that its paths came to, in another group of the log, and was granted
// there, or waits. What became of it is told by that.
func (m *machine) placedAnew(s *session, a *engine.Answer) bool {
	if a.Result.Code == wire.OK && a.Result.Status == wire.StatusOK {
		return false
	}
	if old := s.find(a.Caller.ID, 0); old != nil && !old.nothing() {
		return true
	}
	return s.waits > 0 && slices.ContainsFunc(m.order, func(g *group) bool { return g.state.Awaits(a.Caller) })
}

// Lookup implements statemachine.IOnDiskStateMachine. Reads take views instead,
// after a read index.
func (m *machine) Lookup(any) (any, error) {
	return nil, fmt.Errorf("groups: machines are read through views")
}

// Close implements statemachine.IOnDiskStateMachine.
func (m *machine) Close() error {
	close(m.closed)
	return nil
}
