package groups

import (
	"fmt"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

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
	now := m.answered(hash, &res)
	if cmd.Req.Op == wire.OpAcquire && first.Status == wire.StatusOK && now.nothing() {
		return res // it was granted, and is not to be taken for one that changed nothing
	}
	if remembered(cmd.Req, &res) {
		s.add(now)
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
