package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// SystemGroup is the number by which entries name the system group.
const SystemGroup = 0xffff

// EveryGroup stands for all groups of the log.
const EveryGroup = 0xfffe

// Machine is the replicated state of one log: the virtual groups that live in it,
// its lease clock, its leader epoch and its sessions. dragonboat applies entries to it.
//
// What Update changes is guarded by its lock (Lock); Update is the only writer, but for
// snapshots, which exclude it. Readers take views (View), whose use needs no lock.
type Machine struct {
	Config
	Proposer Proposer // of this node, nil for none. Set before raft has the machine

	mu          sync.Mutex
	Groups      map[uint16]*Group
	Order       []*Group // all that live in the log, by number: every replica goes through the same
	System      *engine.System
	Paged       pagedRoutes
	LeaderEpoch LeaderEpoch
	Limits      Limits
	stated      bool // limits stand in the log
	Number      uint64
	wall        int64
	Sessions    *sessions
	Applied     uint64
	commands    uint64 // since the last checkpoint
	owners      map[string]*presence
	Out         engine.Output
	told        int // of out.Answers, how many were given

	published int // of out.Events, how many were told already
	leases    int // and of out.Told
	fed       int // bytes of what it says of leases that were sent to who is fed

	done   []engine.Done
	reader BatchReader

	Now  atomic.Int64 // of the lease clock, ms, for views to show remaining times by
	time struct {     // read by the proposer
		sync.Mutex
		clock leaseClock
		armed int64 // next deadline, ms of the lease clock; 0: none
	}

	Checkpoints sync.Mutex      // one at a time
	owed        []*sessionImage // that were taken and are not on disk; under checkpoints
	writes      uint64          // of checkpoints and installations; under checkpoints
	Gone        bool            // its rows are deleted, or about to be; under checkpoints

	Installing atomic.Bool   // the disk is not state: a snapshot is being installed, or was in part (install.go)
	installs   atomic.Uint64 // counts snapshots

	Awaited bool          // the node's start waits for it
	Loaded  atomic.Bool   // Open has read the state back
	Voting  atomic.Bool   // it is known to vote in its log
	Closed  chan struct{} // closed when raft lets go of it
}

// New makes a machine that nothing was applied to. Raft has it read its state back (Open) before it applies anything.
func New(c Config) *Machine {
	m := &Machine{Config: c, Closed: make(chan struct{})}
	m.empty()
	return m
}

// empty makes the machine one that nothing was applied to.
func (m *Machine) empty() {
	// All groups are made at once, and none by what asks for it: entries that are for all
	// groups of the log (EveryGroup) must mean the same on every replica.
	m.Groups = make(map[uint16]*Group)
	m.Order = nil
	for _, number := range m.Numbers {
		g := &Group{Number: number, M: m}
		g.State = engine.New(m.EngineConfig(), &fences{m.Store, number, m.Fail}, g)
		m.Groups[number], m.Order = g, append(m.Order, g)
	}
	m.Sessions = newSessions()
	m.owners = make(map[string]*presence)
	m.LeaderEpoch, m.Number, m.Applied = LeaderEpoch{}, 0, 0
	m.Limits, m.stated = DefaultLimits(), false
	if m.Shard == rows.SystemLog {
		m.System = engine.NewSystem()
	}
}

// EngineConfig is what the state of each group is made with.
func (m *Machine) EngineConfig() engine.Config {
	c := engine.DefaultConfig()
	c.Algorithm, c.Segments = m.Algorithm, m.Segments // fixed at birth
	c.LogNow, c.Cut = &m.Now, Cut
	return c
}

// Stamp is the time to propose an entry with, under a leader epoch.
func (m *Machine) Stamp(own LeaderEpoch, mono time.Duration) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.stamp(own, mono)
}

// AppliedTime is the time by which nothing more has passed than at what was applied last.
func (m *Machine) AppliedTime() int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.now
}

// NextDeadline is when something in the log ends with time, by the monotonic clock and by
// the lease clock; 0 when nothing does.
func (m *Machine) NextDeadline() (at time.Duration, deadline int64) {
	m.time.Lock()
	defer m.time.Unlock()
	if m.time.armed == 0 {
		return 0, 0
	}
	left := time.Duration(m.time.armed-m.time.clock.now) * time.Millisecond
	return m.time.clock.at + left, m.time.armed
}

// Lock holds the machine between two entries: none is applied before Unlock.
func (m *Machine) Lock() { m.mu.Lock() }

// Unlock lets entries be applied again.
func (m *Machine) Unlock() { m.mu.Unlock() }

// Update implements statemachine.IOnDiskStateMachine.
func (m *Machine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	m.mu.Lock()
	if len(entries) > 0 {
		m.goesOn(entries[0].Index)
	}
	for i := range entries {
		m.Apply(entries[i].Index, entries[i].Cmd)
		entries[i].Result = sm.Result{}
	}
	due := m.commands >= checkpointCommands
	m.mu.Unlock()
	if m.Proposer != nil {
		m.Proposer.Flush()
	}
	if due {
		m.Host.CheckpointSoon()
	}
	return entries, nil
}

// Apply carries one entry out.
func (m *Machine) Apply(index uint64, data []byte) {
	m.Applied = index
	r, kind, err := OpenEntry(data)
	if err == nil && kind == EntryLeaderEpoch {
		o, l, stated := ReadLeaderEpochEntry(&r)
		if err = r.Err; err == nil {
			m.BeginLeaderEpoch(o, l, stated)
		}
	} else if err == nil && (kind == entryBatch || kind == entryNext) {
		if err = m.reader.open(r, kind); err == nil {
			m.batch(index)
			err = m.reader.Err
		}
	} else if err == nil {
		err = fmt.Errorf("groups: log entry of unknown kind %d", kind)
	}
	if err != nil {
		m.Fail(fmt.Errorf("entry %d of log %d: %w", index, m.Shard, err))
	}
}

// BeginLeaderEpoch lets a new leader's batches in and shuts out all earlier ones. From now on
// the limits count that it stated.
func (m *Machine) BeginLeaderEpoch(o LeaderEpoch, l Limits, stated bool) {
	if o.Term <= m.LeaderEpoch.Term {
		return
	}
	m.LeaderEpoch, m.Number = o, 0
	if stated {
		m.Adopt(l)
	}
	if engine.Planted == engine.PlantLostWaiter {
		for _, g := range m.Order {
			g.State.LoseWaiter()
		}
	}
	if m.Proposer != nil {
		var found *OpenCalls
		if o.Incarnation == m.Proposer.Incarnation() {
			found = m.OpenCalls(o.Term)
		}
		m.Proposer.Began(o, found)
	}
	if m.System != nil {
		m.Host.PolicyWork()
	}
}

// batch applies the batch that reader stands at, if its leader epoch is the current one
// and its number counts (entry.go).
func (m *Machine) batch(index uint64) {
	h := &m.reader.head
	if h.LeaderEpoch != m.LeaderEpoch || h.Number <= m.Number {
		return
	}
	own := m.Proposer != nil && h.LeaderEpoch.Incarnation == m.Proposer.Incarnation()
	if h.Next && h.Number != m.Number+1 {
		if own {
			m.Proposer.Gap(h.LeaderEpoch.Term, h.Number)
		}
		return
	}
	var asked Callers
	switch {
	case own && h.Next:
		asked = m.Proposer.Applied(h.LeaderEpoch, h.Number)
	case own:
		m.Proposer.Barrier(h.LeaderEpoch, h.Number)
	}
	m.Number, m.wall = h.Number, h.Wall
	clock := engine.Clock{Now: m.advance(h.LeaderEpoch, h.Stamp), Wall: h.Wall}
	m.Sessions.expire(clock.Now, &m.Limits)
	m.Out.Reset()
	m.told, m.published, m.leases, m.fed = 0, 0, 0, 0
	if h.Stamp != Still { // what is over and could not end yet would be granted to waits that end with this entry
		m.expire(clock)
	}
	m.answers(clock)
	for i := 0; m.reader.Next(); i++ {
		res := m.command(clock)
		m.commands++
		if asked != nil && asked.Hears(i) {
			m.tellEvents()
			asked.Tell(i, &res)
		}
		if engine.Planted != engine.PlantLateAnswers {
			m.answers(clock)
		}
	}
	m.answers(clock)
	m.tellLeases()
	m.Hub.Publish(m.Shard, index, m.Out.Events, true)
	m.arm()
}

// tellEvents publishes the events of the entry in hand so far. Whoever is answered may subscribe at once, and is told
// only of what comes from then on: so what a command did is published before its answer.
func (m *Machine) tellEvents() {
	m.tellLeases()
	if n := len(m.Out.Events); n > m.published {
		m.published = n
		m.Hub.Publish(m.Shard, m.Applied, m.Out.Events, false)
	}
}

// tellLeases tells what the entry in hand says of leases so far.
func (m *Machine) tellLeases() {
	if told := m.Out.Told[m.leases:]; len(told) > 0 {
		m.leases = len(m.Out.Told)
		m.fed = m.Hub.TellFurther(m.Shard, told, m.fed)
	}
}

func (m *Machine) advance(o LeaderEpoch, stamp int64) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	now := m.time.clock.advance(o, stamp, m.Clock.Mono())
	m.Now.Store(now)
	return now
}

// expire ends what ends with time, in every group and in the system group, as far as one entry may. What is left
// blocks nobody, and has the next entry come at once.
func (m *Machine) expire(c engine.Clock) {
	budget := m.Limits.ReapBudget
	if m.System != nil {
		budget -= m.System.Expire(c.Now, budget)
	}
	for i := range m.Order {
		g := m.Order[(int(m.Number%uint64(len(m.Order)))+i)%len(m.Order)] // each has its turn
		if budget > 0 && g.Due != 0 && g.Due <= c.Now {
			budget -= g.expire(c, budget)
			g.Stepped()
		}
	}
}

// arm publishes the next deadline.
func (m *Machine) arm() {
	next := int64(0)
	if m.System != nil {
		next, _ = m.System.NextDeadline()
	}
	for _, g := range m.Order {
		if g.Due != 0 && (next == 0 || g.Due < next) {
			next = g.Due
		}
	}
	m.time.Lock()
	m.time.armed = next
	m.time.Unlock()
}

// answers ends the open calls that the batch's steps decided.
func (m *Machine) answers(clock engine.Clock) {
	for ; m.told < len(m.Out.Answers); m.told++ {
		a := &m.Out.Answers[m.told]
		m.remember(a, clock.Now)
		if m.Proposer == nil {
			continue
		}
		m.tellEvents()
		m.Proposer.WaitOver(a)
	}
}

// remember keeps the answer to a wait that is over, for a repeat of its request.
func (m *Machine) remember(a *engine.Answer, now int64) {
	s := m.Sessions.ByID[a.Caller.Session]
	if s == nil {
		return // its row was of a build that did not keep it
	}
	m.Sessions.waits(s, max(0, s.Waits-1), now)
	m.Sessions.changes(s)
	m.Sessions.heard(s, now)
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
	}, &m.Limits)
}

// placedAnew says that a wait which came to nothing is one that a move left behind: its request was asked
// again in the namespace that its paths came to, in another group of the log, and was granted
// there, or waits. What became of it is told by that.
func (m *Machine) placedAnew(s *Session, a *engine.Answer) bool {
	if a.Result.Code == wire.OK && a.Result.Status == wire.StatusOK {
		return false
	}
	if old := s.find(a.Caller.ID, 0); old != nil && !old.nothing() {
		return true
	}
	return s.Waits > 0 && slices.ContainsFunc(m.Order, func(g *Group) bool { return g.State.Awaits(a.Caller) })
}

// Lookup implements statemachine.IOnDiskStateMachine. Reads take views instead,
// after a read index.
func (m *Machine) Lookup(any) (any, error) {
	return nil, fmt.Errorf("groups: machines are read through views")
}

// Close implements statemachine.IOnDiskStateMachine.
func (m *Machine) Close() error {
	close(m.Closed)
	return nil
}
