package groups

import (
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Serve implements wire.Handler: it finds out which groups a call is about and
// queues it, or hands it to who carries it out in steps (steps.go).
func (n *Node) Serve(calls []*wire.Call) {
	var to repliers
	var logs touched
	now := n.clock.Mono()
	for _, c := range calls {
		if err := n.dispatch(c, now, &logs); err != nil {
			c.Res.Fail(err)
			to.add(c.To)
			c.To.Reply(c)
		}
	}
	to.flush()
	logs.start()
}

// touched is the logs that a burst of calls queued something in: each is started
// once, when all of the burst is queued.
type touched []*shardLog

func (t *touched) add(l *shardLog) {
	for _, x := range *t {
		if x == l {
			return
		}
	}
	*t = append(*t, l)
}

func (t touched) start() {
	for _, l := range t {
		l.start()
	}
}

// finish answers a call without a part.
func finish(c *wire.Call, res *wire.Result) {
	to := c.To // the call is used again once it is answered
	c.Res = *res
	to.Reply(c)
	to.Flush()
}

// dispatch sends one call on its way. An error means that nothing was done.
func (n *Node) dispatch(c *wire.Call, since time.Duration, logs *touched) *wire.Error {
	if administers(c.Op) {
		return n.stepped(c, since)
	}
	if err := n.refuses(c.Op); err != nil {
		return err
	}
	r := n.routes.Load()
	req := c.Req
	switch c.Op {
	case wire.OpAcquire:
		return n.acquire(c, r, since, logs)
	case wire.OpRelease:
		if ns, one := oneNamespace(r, req.Releases); one && !req.DelWait {
			return n.single(c, n.groupOf(ns), ns, r, since, logs)
		}
	case wire.OpRenew:
		if len(req.Domains) == 1 && strings.IndexByte(req.Domains[0], ':') >= 0 {
			if ns := r.Resolve(req.Domains[0]); ns == req.Domains[0] {
				return n.single(c, n.groupOf(ns), "", r, since, logs)
			}
		}
	case wire.OpSetWaitEdge, wire.OpClearWaitEdge:
		return n.single(c, wire.HomeOf(req.Owner, n.cfg.GroupCount), "", r, since, logs)
	case wire.OpIncrToken:
		return n.single(c, systemGroup, "", r, since, logs)
	case wire.OpSetPolicy, wire.OpDeletePolicy:
		return n.policyCall(c, r, since, logs)
	case wire.OpInspectPath, wire.OpDescribe, wire.OpIsBlocking:
		return n.readPath(c, r, req.Path)
	case wire.OpGetPolicy:
		return n.readPolicy(c, r)
	case wire.OpAssertFencing:
		if len(req.Paths) > 0 {
			if ns, one := samePaths(r, req.Paths); one {
				return n.readAssert(c, ns, r)
			}
		}
	}
	if err := n.refusesIn(c.Op, nil); err != nil {
		return err
	}
	return n.stepped(c, since)
}

// acquire queues an acquire, whose paths must all lie in one namespace.
func (n *Node) acquire(c *wire.Call, r *wire.Routes, since time.Duration, logs *touched) *wire.Error {
	req := c.Req
	var first string
	switch {
	case len(req.Locks) > 0:
		first = req.Locks[0].Path
	case len(req.Releases) > 0:
		first = req.Releases[0].Path
	default:
		finish(c, &wire.Result{})
		return nil
	}
	ns := r.Resolve(first)
	for i := range req.Locks {
		if other := r.Resolve(req.Locks[i].Path); other != ns {
			return spans(first, ns, req.Locks[i].Path, other)
		}
	}
	for i := range req.Releases {
		if other := r.Resolve(req.Releases[i].Path); other != ns {
			return spans(first, ns, req.Releases[i].Path, other)
		}
	}
	return n.single(c, n.groupOf(ns), ns, r, since, logs)
}

// single queues a call that is one command in one group.
func (n *Node) single(c *wire.Call, group uint16, ns string, r *wire.Routes, since time.Duration, logs *touched) *wire.Error {
	l := n.logOf(group)
	if err := n.redirects(c, l); err != nil {
		return err
	}
	if err := n.refusesIn(c.Op, l); err != nil {
		return err
	}
	if err := n.admit(group); err != nil {
		return err
	}
	p, ok := c.Ctl.(*part)
	if !ok {
		p = new(part)
		c.Ctl = p
	}
	*p = part{
		call: c, log: l, group: group, op: c.Op, nargs: c.NArgs, body: c.Body, nsLen: len(ns), version: r.Version,
		session: c.Session, id: c.ID, since: since, counted: true,
	}
	if c.Op == wire.OpAcquire {
		p.meta = c.Session.Meta
		if len(c.Req.Meta) > 0 {
			p.meta = c.Req.Meta
		}
		p.waits = c.Req.Flags&wire.FlagWait != 0
	}
	if c.Bound {
		p.bound, p.grace = true, c.Grace
	}
	if p.waits {
		var to repliers
		n.attach(p, &to)
		to.flush()
	}
	l.push(p)
	logs.add(l)
	return nil
}

// policyCall queues a policy change in the system group, under the namespace's one
// name.
func (n *Node) policyCall(c *wire.Call, r *wire.Routes, since time.Duration, logs *touched) *wire.Error {
	if ns := r.Canonical(c.Req.Namespace); ns != c.Req.Namespace {
		req := *c.Req
		req.Namespace = ns
		c.Body, c.NArgs = wire.AppendArgs(nil, &req)
	}
	return n.single(c, systemGroup, "", r, since, logs)
}

// again sends a call on its way a second time: a routing change overtook it. It
// waits until this node knows the new routes, or a little, if the change is still
// under way.
func (n *Node) again(c *wire.Call, version uint64, since time.Duration) {
	const pause = 5 * time.Millisecond
	for waited := time.Duration(0); waited < pause || n.routes.Load().Version < version; waited += pause {
		if n.clock.Mono()-since >= n.cfg.RequestTimeout {
			finish(c, &wire.Result{Code: wire.Unavailable, Message: "the namespace was being moved for all of request_timeout_ms; nothing was done"})
			return
		}
		time.Sleep(pause)
		if n.routes.Load().Version < version && n.logs[systemShard].own() == nil {
			_ = n.learnRoutes(since) // without an answer the old ones are refused once more
		}
	}
	if c.Session.Redirect { // it was begun here
		s := *c.Session
		s.Redirect = false
		c.Session = &s
	}
	c.Req = new(wire.Request)
	err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, c.Req)
	if err == nil {
		var logs touched
		err = n.dispatch(c, since, &logs)
		logs.start()
	}
	if err != nil {
		finish(c, &wire.Result{Code: err.Code, Message: err.Message})
	}
}

// Cancel implements wire.Handler.
func (n *Node) Cancel(s *wire.Session, id uint64) {
	if w, ok := n.waits.end(engine.Caller{Session: engine.Session(s.ID), ID: id}); ok {
		n.endWait(w)
	}
}

// Closed implements wire.Handler. A node that is on its way out takes nothing from
// its clients: they go on elsewhere, or here after a restart.
func (n *Node) Closed(s *wire.Session, tied, resumed bool) {
	if !resumed {
		n.backups.left(engine.Session(s.ID))
	}
	if n.draining.Load() {
		return
	}
	ended := n.waits.endAll(engine.Session(s.ID), func(p *part) (grace uint64, ok bool) {
		switch {
		case p.session.Epoch > s.Epoch:
			return 0, false // asked again on a later connection
		case p.from != nil:
			return 0, false // and on another node
		case resumed:
			grace = uint64(reattachGrace.Milliseconds())
		case p.bound:
			grace = p.grace
		}
		return grace, true
	})
	for _, w := range ended {
		n.endWait(w)
	}
	if !tied || resumed {
		return
	}
	body, nargs := wire.AppendArgs(nil, &wire.Request{Op: wire.OpDetach})
	for shard, l := range n.logs {
		if shard == systemShard {
			continue
		}
		n.inflight[n.slot(everyGroup)].Add(1)
		l.push(&part{
			done: func(*part, *wire.Result) {}, group: everyGroup, op: wire.OpDetach, nargs: nargs, body: body,
			session: s, since: n.clock.Mono(), counted: true,
		})
		l.start()
	}
}

// Subscribe implements wire.Handler.
func (n *Node) Subscribe(sub *wire.Subscription) ([]wire.Position, *wire.Error) {
	return n.hub.subscribe(sub), nil
}

// Unsubscribe implements wire.Handler.
func (n *Node) Unsubscribe(sub *wire.Subscription) { n.hub.unsubscribe(sub) }

// Tap calls t with every event this node sees, and missed when there were some that
// it did not see, until the returned function is called. Neither may block.
func (n *Node) Tap(t Tap, missed func()) func() { return n.hub.tap(t, missed) }
