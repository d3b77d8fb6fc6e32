package replica

import (
	"fmt"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// command carries out the command that reader stands at, unless its session asked
// it before.
func (m *Machine) command(c engine.Clock) wire.Result {
	cmd := &m.reader.Cmd
	if m.reader.Group == SystemGroup {
		return m.systemCommand(c, cmd)
	}
	if cmd.Req.Op == wire.OpResume {
		s, refused := m.session(c)
		if s != nil && m.reader.Sub != 0 {
			m.Sessions.changes(s)
			s.add(m.answered(0, &refused), &m.Limits)
		}
		return refused
	}
	if m.reader.Group == EveryGroup {
		for _, g := range m.Order {
			g.apply(c, cmd)
			g.Stepped()
		}
		return wire.Result{}
	}
	g := m.Groups[m.reader.Group]
	if g == nil {
		m.Fail(fmt.Errorf("groups: a command of group %d, which does not live in log %d", m.reader.Group, m.Shard))
		return wire.Result{Code: wire.Internal}
	}
	defer g.Stepped()
	ref := m.reader.Session
	if spec, _ := cmd.Req.Op.Spec(); ref == nil || spec.Kind == wire.KindInternal {
		if notice := cmd.Req.Op == wire.OpKillNotice || cmd.Req.Op == wire.OpRevokeNotice; notice && ref != nil {
			return m.notice(c, g)
		}
		if cmd.Req.Op == wire.OpClaim && ref != nil {
			return m.claim(c, g)
		}
		return g.apply(c, cmd)
	}
	s, refused := m.session(c)
	if s == nil {
		return refused
	}
	hash := m.hashAsked()
	if res, ok := g.waiting(c, cmd); ok { // whatever it was answered when it was asked before, and had no place
		return res
	}
	// its wait was over, and nobody had come to end it
	if m.told < len(m.Out.Answers) && engine.Planted != engine.PlantLateAnswers {
		m.answers(c)
	}
	asked := cmd.Req.Releases
	old := m.askedBefore(s)
	if old != nil && old.stands(s.highest) {
		another := old.another(cmd.Req.Op, hash)
		if cmd.Req.Op == wire.OpRelease && !another && !m.sentTwice(s) {
			// an acquire before it is sent on, and it comes behind that
			if res, moved := g.State.Overtaken(cmd); moved {
				return res
			}
		}
		if another || !s.owes(cmd.Caller.ID, cmd.Req) {
			return m.repeat(c, g, s, old, hash)
		}
	}
	if s.find(cmd.Caller.ID, m.reader.Sub) == nil && s.forgot(cmd.Caller.ID, m.reader.Again) {
		return forgotten
	}
	id := cmd.Caller.ID
	// else it had come before that, and waits again
	if cmd.Req.Op == wire.OpAcquire && (s.tookBack(id) || old == nil && s.gaveBack(id, cmd.Req)) {
		// It may wait where its paths are by now, which only the log there knows. What has no place anywhere is not
		// sent on: that log does not know of the release, and would take it for a new one.
		if res, moved := g.State.Overtaken(cmd); moved && mayWait(cmd.Req) {
			return res
		}
		return takenBack
	}
	if m.reader.Attached && old == nil && engine.Planted != engine.PlantAttachedAnew {
		if res, moved := g.State.Overtaken(cmd); moved {
			return res
		}
		return placeForgotten
	}
	if s.tookAnew(id, cmd.Req); len(cmd.Req.Releases) < len(asked) {
		cmd.Asked = asked
	}
	var res wire.Result
	if m.NoEngine {
		res.Token, res.Namespace = int64(cmd.Caller.ID), cmd.NS
	} else {
		res = g.apply(c, cmd)
	}
	cmd.Req.Releases = asked // what is left of it is done, too
	if remembered(cmd.Req, &res) {
		m.Sessions.changes(s)
		s.add(m.answered(hash, &res), &m.Limits)
	} else if res.Code == wire.OK {
		m.Sessions.waits(s, s.Waits+1, c.Now)
	}
	return res
}

// mayWait says that an acquire may have a place in a queue.
func mayWait(req *wire.Request) bool { return req.Flags&wire.FlagNoQueue == 0 }

// sentTwice says that the command in hand, which was answered before, is repeated by a node alone, as far as is
// known: its client has asked for it on the latest connection first, and once, and so for all that came before it
// there.
func (m *Machine) sentTwice(s *Session) bool {
	return m.reader.Tried && !m.reader.Insists && m.reader.Cmd.Caller.ID > s.mark
}

// takenBack answers an acquire that its session has given back already.
var takenBack = wire.Result{Code: wire.Cancelled,
	Message: "acquire: a release took it back that was carried out before; nothing was done"}

// askedBefore is what the command in hand was answered before, nil when that is not known. A release that was
// one command goes in parts, or the other way round, when its paths have come to several namespaces since, or to
// one. What was carried out as a whole is done in every part. And with the part for its namespace all of a
// release is done: a path that has come there since was free then, so what is held on it was taken after that.
func (m *Machine) askedBefore(s *Session) *answered {
	cmd, sub := &m.reader.Cmd, m.reader.Sub
	old := s.find(cmd.Caller.ID, sub)
	if cmd.Req.Op != wire.OpRelease || old != nil && !old.nothing() {
		return old
	}
	twin := uint64(0)
	if sub == 0 {
		twin = SubOf(cmd.NS)
	}
	if other := s.find(cmd.Caller.ID, twin); other != nil && !other.nothing() {
		return other
	}
	return old
}

// notice carries out the command in hand, which tells an owner of what was done to it, once. It goes
// without a session where there is no room for one more.
func (m *Machine) notice(c engine.Clock, g *Group) wire.Result {
	cmd := &m.reader.Cmd
	s, refused := m.session(c)
	switch {
	case s == nil && refused.Code != wire.ResourceExhausted:
		return refused
	case s == nil:
		return g.apply(c, cmd)
	}
	hash := m.hashAsked()
	if old := s.find(cmd.Caller.ID, m.reader.Sub); old != nil {
		if old.another(cmd.Req.Op, hash) {
			return anotherClaim
		}
		return g.repeat(c, cmd, &wire.Result{})
	}
	res := g.apply(c, cmd)
	if res.Code == wire.OK {
		m.Sessions.changes(s)
		s.add(m.answered(hash, &res), &m.Limits)
	}
	return res
}

// claim carries out the command in hand, which is a step of a claim. A session remembers which claim a
// request of its has, so that it goes on with no other one when that is over; it goes without where there is no room
// for one more. A renewal is carried out again by each repeat, and only compared with the others of its key.
func (m *Machine) claim(c engine.Clock, g *Group) wire.Result {
	cmd := &m.reader.Cmd
	if wire.Op(cmd.Req.Target) == wire.OpRenew {
		return g.apply(c, cmd)
	}
	s, refused := m.session(c)
	if s == nil && refused.Code != wire.ResourceExhausted {
		return refused
	}
	if !engine.Joins(cmd.Req) {
		return g.apply(c, cmd)
	}
	if s != nil {
		if old := s.find(cmd.Caller.ID, m.reader.Sub); old != nil {
			cmd.Req.Token = old.token
		}
	}
	res := g.apply(c, cmd)
	if s != nil && res.Code == wire.OK && res.Token != 0 {
		m.Sessions.changes(s)
		s.add(m.answered(0, &res), &m.Limits)
	}
	return res
}

// carriedOut says that all of a request was, as far as this log was told. What was told may be
// forgotten.
func (m *Machine) carriedOut(id engine.Session, request uint64, again bool) (res wire.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.Sessions.ByID[id]; s != nil {
		if res.Flag = s.whole(request); !res.Flag && s.forgot(request, again) {
			return forgotten
		}
	}
	return res
}

// hashAsked tells the request of the command in hand from others under its id. Of one that is
// carried out in several parts it tells nothing but the claim: what a part says follows from where its owner
// is and how paths are resolved by then, and so may differ in a repeat.
func (m *Machine) hashAsked() uint32 {
	if m.reader.Sub != 0 {
		return engine.HashOfClaim(m.reader.Cmd.Req.Key)
	}
	return hashBody(m.reader.Body)
}

// session answers the session of the command in hand, or why it is not carried out.
func (m *Machine) session(c engine.Clock) (s *Session, refused wire.Result) {
	ref := m.reader.Session
	if ref.state == nil {
		known := m.Sessions.ByID[ref.ID]
		if ref.state = m.Sessions.use(ref, c.Now, &m.Limits); ref.state == nil {
			refused.Fail(wire.Errorf(wire.ResourceExhausted,
				"session: this log remembers %d that asked or waited for something in the last %d s, at most %d are "+
					"allowed; nothing was done",
				len(m.Sessions.ByID), m.Limits.RememberMillis/1000, m.Limits.MaxSessions))
			return nil, refused
		}
		if ref.state != known { // a backup has its waits, and no sessions
			m.Sessions.waits(ref.state, m.waitsOf(ref.ID), c.Now)
		}
	}
	s = ref.state
	if ref.Epoch < s.Epoch {
		return nil, staleConnection
	}
	if m.reader.Settled > s.settled {
		m.Sessions.changes(s)
		s.settle(m.reader.Settled)
	}
	return s, refused
}

// waitsOf is how many answers a session waits for.
func (m *Machine) waitsOf(id engine.Session) (n int) {
	for _, g := range m.Order {
		n += g.State.CallsOf(id)
	}
	if m.System != nil {
		n += m.System.Waiting(id)
	}
	return n
}

// forgotten answers what may be a repeat of a request whose answer is not kept.
var forgotten = wire.Result{
	Code: wire.Forgotten,
	Message: "the answer is not kept any more, as it was settled, or too many were not; nothing was done now, and " +
		"what was done when it was asked first is not known",
}

// placeForgotten answers a wait that its node asks for anew, as it knows its place, and that has none: it was answered
// while the node heard nothing of this log, and its session may be forgotten since. Its client may have gone on
// elsewhere, had its lock, and given it back: were it taken for a new wait, what it is granted would be nobody's.
var placeForgotten = wire.Result{
	Code: wire.Forgotten,
	Message: "its place in the queue was lost while its node could not reach the log's leader, and what became of " +
		"it is not known any more; nothing was done now",
}

// staleConnection answers a command that a client has asked again, or given up, on a later
// connection of its session: it must not be carried out after that.
var staleConnection = wire.Result{Code: wire.Aborted,
	Message: "the session went on on a later connection; nothing was done"}

// systemCommand carries a command of the system group out.
func (m *Machine) systemCommand(c engine.Clock, cmd *engine.Command) wire.Result {
	var s *Session
	hash := m.hashAsked()
	if cmd.Req.Op == wire.OpSetPolicy || cmd.Req.Op == wire.OpDeletePolicy {
		hash = hashChange(engine.HashOf(cmd.Req))
	}
	if m.reader.Session != nil {
		var refused wire.Result
		if s, refused = m.session(c); s == nil {
			return refused
		}
		switch waits := m.System.Waits(cmd.Caller); {
		case waits && !m.System.Asks(cmd):
			return usedID(cmd)
		case !waits: // else it joins the change that is under way
			if res, ok := m.systemRepeat(cmd, s, hash); ok {
				return res
			}
		}
	}
	m.done = m.done[:0]
	res := m.System.Apply(c, cmd, &m.done)
	spec, _ := cmd.Req.Op.Spec()
	if s != nil && spec.Kind != wire.KindInternal && res.Status != wire.StatusQueued && remembered(cmd.Req, &res) {
		m.Sessions.changes(s)
		s.add(m.answered(hash, &res), &m.Limits)
	}
	if s != nil {
		m.Sessions.waits(s, m.System.Waiting(s.id), c.Now)
	}
	m.Host.SystemChanged(m.System)
	if cmd.Req.Op == wire.OpMarkNode {
		m.Host.LookAround()
	}
	for i := range m.done {
		d := &m.done[i]
		for _, of := range d.Of() {
			if s := m.Sessions.ByID[of.Session]; s != nil {
				m.Sessions.waits(s, m.System.Waiting(s.id), c.Now)
				m.Sessions.changes(s)
				s.add(answered{id: of.ID, hash: hashChange(d.Hash), op: d.Op, code: d.Result.Code}, &m.Limits)
			}
		}
		if m.Proposer != nil {
			m.Proposer.ChangeOver(d)
		}
	}
	m.Host.PolicyWork()
	return res
}

// systemRepeat answers a command of the system group that its session asked before, ok false if it is to
// be carried out.
func (m *Machine) systemRepeat(cmd *engine.Command, s *Session, hash uint32) (res wire.Result, ok bool) {
	switch old := s.find(cmd.Caller.ID, m.reader.Sub); {
	case old == nil:
		return forgotten, s.forgot(cmd.Caller.ID, m.reader.Again)
	case !old.stands(s.highest):
		return res, false
	case old.another(cmd.Req.Op, hash):
		return usedID(cmd), true
	case old.nothing():
		return old.again(cmd.Req), true
	default:
		return old.result(), true
	}
}

// anotherClaim answers a part of a call that was carried out in an earlier claim of its key: in this one it counts for
// nothing, and is not carried out a second time.
var anotherClaim = wire.Result{
	Code: wire.Forgotten,
	Message: "the idempotency_key is not known any more as that of this request; nothing was done now, " +
		"and it was or may have been carried out in a part before",
}

// usedID answers a command whose id its session used for another one.
func usedID(cmd *engine.Command) (res wire.Result) {
	res.Fail(wire.Errorf(wire.InvalidArgument,
		"request id %d: was used for another request of this session; ids must grow", cmd.Caller.ID))
	return res
}

// repeat answers a request that its session asked before.
func (m *Machine) repeat(c engine.Clock, g *Group, s *Session, old *answered, hash uint32) (res wire.Result) {
	cmd := &m.reader.Cmd
	if old.another(cmd.Req.Op, hash) {
		if m.reader.Sub != 0 && old.op == cmd.Req.Op {
			return anotherClaim
		}
		return usedID(cmd)
	}
	if old.nothing() {
		return old.again(cmd.Req)
	}
	first := old.result()
	res = g.repeat(c, cmd, &first)
	now := m.answered(hash, &res)
	if cmd.Req.Op == wire.OpAcquire && now.nothing() {
		return res // it was granted or had a place, and is not to be taken for one that changed nothing
	}
	if remembered(cmd.Req, &res) {
		m.Sessions.changes(s)
		s.add(now, &m.Limits)
	}
	return res
}

// answered is what is remembered of the answer to the command in hand.
func (m *Machine) answered(hash uint32, res *wire.Result) answered {
	cmd, sub := &m.reader.Cmd, m.reader.Sub
	if res.Code != wire.OK {
		sub &^= WholeSub
	}
	a := answered{
		id: cmd.Caller.ID, sub: sub, hash: hash, op: cmd.Req.Op, status: res.Status, code: res.Code,
		reason: res.Reason, token: res.Token,
	}
	if a.code == wire.OK && a.status == wire.StatusOK {
		a.marks = marksOf(cmd.Req)
	}
	if a.op == wire.OpRelease && a.code == wire.OK {
		a.token = int64(cmd.Req.Target) // see tookBack
	}
	return a
}

// remembered says that an answer is kept for a repeat of its request. A waiting acquire is
// remembered by its place in the queue until it is granted; and what is UNAVAILABLE for
// now is asked again under its id.
func remembered(req *wire.Request, res *wire.Result) bool {
	if res.Code == wire.OK && req.Op == wire.OpAcquire && res.Status == wire.StatusQueued {
		return req.Flags&wire.FlagWait == 0
	}
	return res.Code != wire.Unavailable && res.Code != wire.Forgotten
}
