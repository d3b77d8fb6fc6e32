package groups

import (
	"fmt"
	"log/slog"
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
// its lease clock, its office and its sessions. dragonboat applies entries to it.
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

	mu       sync.Mutex
	groups   map[uint16]*group
	order    []*group // all that live in the log, by number: every replica goes through the same
	system   *engine.System
	office   office
	number   uint64
	wall     int64
	sessions *sessions
	applied  uint64
	commands uint64 // since the last checkpoint
	owners   map[string]*presence
	out      engine.Output
	done     []engine.Done
	reader   batchReader
	flush    repliers

	time struct { // read by the proposer
		sync.Mutex
		clock leaseClock
		armed int64 // next deadline, ms of the lease clock; 0: none
	}

	checkpoints sync.Mutex // one at a time
	gone        bool       // its rows are deleted, or about to be; under checkpoints

	awaited bool          // the node's start waits for it
	loaded  atomic.Bool   // Open has read the state back
	voting  atomic.Bool   // it is known to vote in its log
	closed  chan struct{} // closed when raft lets go of it
}

// group is one virtual group hosted by a log.
type group struct {
	number uint16
	m      *machine
	state  *engine.State
	due    int64 // its next deadline, 0: none
	steps  uint64
	view   *engine.View // of step viewed
	viewed uint64
}

// presence is where in the log an owner has a standing.
type presence struct {
	groups []*group
	counts []int
}

// OwnerCame implements engine.OwnerWatch.
func (g *group) OwnerCame(owner string) {
	p := g.m.owners[owner]
	if p == nil {
		p = new(presence)
		g.m.owners[owner] = p
	}
	for i := range p.groups {
		if p.groups[i] == g {
			p.counts[i]++
			return
		}
	}
	p.groups, p.counts = append(p.groups, g), append(p.counts, 1)
}

// OwnerWent implements engine.OwnerWatch.
func (g *group) OwnerWent(owner string) {
	p := g.m.owners[owner]
	for i := range p.groups {
		if p.groups[i] != g {
			continue
		}
		if p.counts[i]--; p.counts[i] == 0 {
			last := len(p.groups) - 1
			p.groups[i], p.counts[i] = p.groups[last], p.counts[last]
			p.groups[last] = nil
			p.groups, p.counts = p.groups[:last], p.counts[:last]
		}
		break
	}
	if len(p.groups) == 0 {
		delete(g.m.owners, owner)
	}
}

func newMachine(n *Node, shard, replica uint64) *machine {
	m := &machine{node: n, shard: shard, replica: replica, store: n.store, log: n.log.With("log", shard), clock: n.clock, closed: make(chan struct{})}
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
		g.state = engine.New(m.node.engineConfig(), &fences{m.store, number, m.fail}, g)
		m.groups[number], m.order = g, append(m.order, g)
	}
	m.sessions = newSessions()
	m.owners = make(map[string]*presence)
	m.office, m.number, m.applied = office{}, 0, 0
	if m.shard == systemShard {
		m.system = engine.NewSystem()
	}
}

// fail ends the process: the state can no longer be trusted to be what the log
// says.
func (m *machine) fail(err error) { m.node.cfg.lastWord(m.log, err) }

// stamp is the time to propose an entry with.
func (m *machine) stamp(mono time.Duration) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.stamp(mono)
}

// nextDeadline is when something in the log ends with time, by the monotonic
// clock; ok is false when nothing does.
func (m *machine) nextDeadline() (at time.Duration, ok bool) {
	m.time.Lock()
	defer m.time.Unlock()
	if m.time.armed == 0 {
		return 0, false
	}
	left := time.Duration(m.time.armed-m.time.clock.now) * time.Millisecond
	return m.time.clock.appliedAt + left, true
}

// Update implements statemachine.IOnDiskStateMachine.
func (m *machine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	m.mu.Lock()
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
	if err == nil && kind == entryOffice {
		m.takeOffice(r.office())
		err = r.err
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

// takeOffice lets a new leader's batches in and shuts out all earlier ones.
func (m *machine) takeOffice(o office) {
	if o.term <= m.office.term {
		return
	}
	m.office, m.number = o, 0
	if engine.Planted == engine.PlantLostWaiter {
		for _, g := range m.order {
			g.state.LoseWaiter()
		}
	}
	if m.driver != nil {
		m.driver.officeTaken(o)
	}
	if m.system != nil {
		m.node.policyWork()
	}
}

// batch applies the batch that reader stands at, if its office is the current one
// and its number counts (entry.go).
func (m *machine) batch(index uint64) {
	h := &m.reader.head
	if h.office != m.office || h.number <= m.number {
		return
	}
	own := m.driver != nil && h.office.incarnation == m.driver.process
	if h.next && h.number != m.number+1 {
		if own {
			m.driver.tear(h.office.term, h.number)
		}
		return
	}
	var f *flight
	switch {
	case own && h.next:
		f = m.driver.landing(h.office, h.number)
	case own:
		m.driver.mended(h.office, h.number)
	}
	m.number, m.wall = h.number, h.wall
	clock := engine.Clock{Now: m.advance(h.stamp), Wall: h.wall}
	m.sessions.expire(clock.Now)
	m.out.Reset()
	m.expire(clock)
	for i := 0; m.reader.next(); i++ {
		res := m.command(clock)
		m.commands++
		if f != nil && f.parts[i] != nil {
			m.node.deliver(f.parts[i], &res, &m.flush)
		}
	}
	m.answers()
	m.node.hub.publish(m.shard, index, m.out.Events)
	m.arm()
}

func (m *machine) advance(stamp int64) int64 {
	m.time.Lock()
	defer m.time.Unlock()
	return m.time.clock.advance(stamp, m.clock.Mono())
}

// expire ends what ends with time, in every group.
func (m *machine) expire(c engine.Clock) {
	for _, g := range m.order {
		if g.due != 0 && g.due <= c.Now {
			g.state.Expire(c, &m.out)
			g.stepped()
		}
	}
}

// stepped takes note of a step of the group.
func (g *group) stepped() {
	g.steps++
	g.due, _ = g.state.NextDeadline()
}

// arm publishes the next deadline.
func (m *machine) arm() {
	next := int64(0)
	for _, g := range m.order {
		if g.due != 0 && (next == 0 || g.due < next) {
			next = g.due
		}
	}
	m.time.Lock()
	m.time.armed = next
	m.time.Unlock()
}

// command carries out the command that reader stands at, unless its session asked
// it before.
func (m *machine) command(c engine.Clock) wire.Result {
	cmd := &m.reader.cmd
	if m.reader.group == systemGroup {
		return m.systemCommand(c, cmd)
	}
	if m.reader.group == everyGroup {
		for _, g := range m.order {
			g.state.Apply(c, cmd, &m.out)
			g.stepped()
		}
		return wire.Result{}
	}
	g := m.groups[m.reader.group]
	if g == nil {
		m.fail(fmt.Errorf("groups: a command of group %d, which does not live in log %d", m.reader.group, m.shard))
		return wire.Result{Code: wire.Internal}
	}
	defer g.stepped()
	ref := m.reader.session
	if spec, _ := cmd.Req.Op.Spec(); ref == nil || spec.Kind == wire.KindInternal {
		return g.state.Apply(c, cmd, &m.out)
	}
	if ref.state == nil {
		ref.state = m.sessions.use(ref, c.Now)
	}
	if ref.epoch < ref.state.epoch {
		return staleConnection
	}
	hash := hashBody(m.reader.body)
	if old := ref.state.find(cmd.Caller.ID, m.reader.sub); old != nil && (!old.nothing() || old.id < ref.state.highest) {
		return m.repeat(c, g, ref.state, old, hash)
	}
	if res, ok := g.state.Waiting(c, cmd, &m.out); ok {
		return res
	}
	var res wire.Result
	if m.node.cfg.NoEngine {
		res.Token, res.Namespace = int64(cmd.Caller.ID), cmd.NS
	} else {
		res = g.state.Apply(c, cmd, &m.out)
	}
	if remembered(cmd.Req, &res) {
		ref.state.add(m.answered(hash, &res))
	}
	return res
}

// staleConnection answers a command that a client has asked again, or given up, on a later
// connection of its session: it must not be carried out after that.
var staleConnection = wire.Result{Code: wire.Aborted, Message: "the session went on on a later connection; nothing was done"}

// systemCommand carries a command of the system group out.
func (m *machine) systemCommand(c engine.Clock, cmd *engine.Command) wire.Result {
	var s *session
	hash := hashBody(m.reader.body)
	if ref := m.reader.session; ref != nil {
		if ref.state == nil {
			ref.state = m.sessions.use(ref, c.Now)
		}
		s = ref.state
		if ref.epoch < s.epoch {
			return staleConnection
		}
		if old := s.find(cmd.Caller.ID, m.reader.sub); old != nil && old.op == cmd.Req.Op && (old.hash == 0 || old.hash == hash) {
			return old.result()
		}
	}
	m.done = m.done[:0]
	res := m.system.Apply(c, cmd, &m.done)
	if s != nil && cmd.Req.Op == wire.OpIncrToken && res.Code == wire.OK {
		s.add(m.answered(hash, &res))
	}
	m.publishRoutes()
	if cmd.Req.Op == wire.OpMarkNode {
		m.node.lookAround()
	}
	for i := range m.done {
		d := &m.done[i]
		if s := m.sessions.byID[d.Caller.Session]; s != nil && d.Result.Code == wire.OK {
			s.add(answered{id: d.Caller.ID, op: d.Op})
		}
		for _, p := range m.node.changes.take(d.ID) {
			p.answer(&d.Result, &m.flush)
		}
	}
	m.node.policyWork()
	return res
}

// publishRoutes makes this node resolve paths by the routes in force.
func (m *machine) publishRoutes() {
	if version := m.system.Version(); version > m.node.routes.Load().Version {
		m.node.setRoutes(m.system.Routes(m.node.cfg.Segments))
	}
}

// repeat answers a request that its session asked before.
func (m *machine) repeat(c engine.Clock, g *group, s *session, old *answered, hash uint32) (res wire.Result) {
	cmd := &m.reader.cmd
	if old.op != cmd.Req.Op || old.hash != 0 && old.hash != hash {
		res.Fail(wire.Errorf(wire.InvalidArgument,
			"request id %d: was used for another request of this session; ids must grow", cmd.Caller.ID))
		return res
	}
	if old.nothing() {
		return old.again(cmd.Req)
	}
	first := old.result()
	res = g.state.Repeat(c, cmd, &first, &m.out)
	if remembered(cmd.Req, &res) {
		s.add(m.answered(hash, &res))
	}
	return res
}

// answered is what is remembered of the answer to the command in hand.
func (m *machine) answered(hash uint32, res *wire.Result) answered {
	cmd := &m.reader.cmd
	return answered{
		id: cmd.Caller.ID, sub: m.reader.sub, hash: hash, op: cmd.Req.Op, status: res.Status, code: res.Code,
		reason: res.Reason, token: res.Token,
	}
}

// remembered says that an answer is kept for a repeat of its request. A waiting acquire is
// remembered by its place in the queue until it is granted; and what is UNAVAILABLE for
// now is asked again under its id.
func remembered(req *wire.Request, res *wire.Result) bool {
	if res.Code == wire.OK && req.Op == wire.OpAcquire && res.Status == wire.StatusQueued {
		return req.Flags&wire.FlagWait == 0
	}
	return res.Code != wire.Unavailable
}

// answers ends the open calls that the batch's steps decided.
func (m *machine) answers() {
	for i := range m.out.Answers {
		a := &m.out.Answers[i]
		if s := m.sessions.byID[a.Caller.Session]; s != nil && a.Result.Code == wire.OK && a.Result.Status == wire.StatusOK {
			s.add(answered{id: a.Caller.ID, op: wire.OpAcquire, token: a.Result.Token})
		}
		if m.driver == nil {
			continue
		}
		// A repeat that is still on its way here is answered when it arrives: its part
		// is in a batch, and must not be used for another call before that landed.
		if p := m.node.waits.get(a.Caller); p != nil && p.open && m.node.waits.take(a.Caller, p) {
			p.answer(&a.Result, &m.flush)
		}
	}
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

// view is one of a group by number; an empty one of a group that lives in another log.
func (m *machine) view(number uint16) *engine.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.groups[number]; g != nil {
		return g.current()
	}
	return engine.New(m.node.engineConfig(), nil, nil).View()
}

// current is a view of the group as it is. While nothing changes it, readers share
// one.
func (g *group) current() *engine.View {
	if g.view == nil || g.viewed != g.steps {
		g.view, g.viewed = g.state.View(), g.steps
	}
	return g.view
}

// find answers the groups of the log in which an owner has a standing.
func (m *machine) find(owner string) (numbers []uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owners[owner]; p != nil {
		for _, g := range p.groups {
			numbers = append(numbers, g.number)
		}
	}
	return numbers
}
