package groups

import (
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
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
	if err := n.refuses(c); err != nil {
		return err
	}
	r := n.routes.Load()
	req := c.Req
	switch c.Op {
	case wire.OpAcquire, wire.OpRelease, wire.OpRenew:
		if c.Op == wire.OpAcquire && len(req.Locks)+len(req.Releases) == 0 {
			finish(c, &wire.Result{})
			return nil
		}
		if ok, err := n.inLine(c, since, logs); ok || err != nil {
			return err
		}
	case wire.OpSetWaitEdge, wire.OpClearWaitEdge:
		return n.single(c, wire.HomeOf(req.Owner, n.cfg.GroupCount), r, since, logs)
	case wire.OpIncrToken:
		return n.single(c, replica.SystemGroup, r, since, logs)
	case wire.OpSetPolicy, wire.OpDeletePolicy:
		return n.single(c, replica.SystemGroup, r, since, logs)
	case wire.OpInspectPath, wire.OpDescribe, wire.OpIsBlocking:
		return n.readPath(c, r, req.Path, since)
	case wire.OpGetPolicy:
		return n.readPolicy(c, since)
	case wire.OpAssertFencing:
		if len(req.Paths) > 0 {
			if ns, one := samePaths(r, req.Paths); one {
				return n.readAssert(c, ns, r, since)
			}
		}
	}
	if err := n.refusesIn(c.Op, nil); err != nil {
		return err
	}
	return n.stepped(c, since)
}

// single queues a call that is one command in one group, and about no namespace.
func (n *Node) single(c *wire.Call, group uint16, r *wire.Routes, since time.Duration, logs *touched) *wire.Error {
	l := n.logOf(group)
	if err := n.redirects(c, l); err != nil {
		return err
	}
	if err := n.refusesIn(c.Op, l); err != nil {
		return err
	}
	if c.Op == wire.OpAcquire && c.Req.Flags&wire.FlagNoQueue != 0 {
		if err := l.unled(); err != nil {
			return err
		}
	}
	if err := n.admit(group); err != nil {
		return err
	}
	p := partOf(c)
	*p = part{
		Command: replica.Command{
			Group: group, Op: c.Op, NArgs: c.NArgs, Body: c.Body, Version: r.Version,
			Session: c.Session, ID: c.ID, Settled: c.Settled,
		},
		call:    c,
		log:     l,
		since:   since,
		counted: true,
	}
	l.push(p)
	logs.add(l)
	return nil
}

// partOf answers the part that a call is the whole of.
func partOf(c *wire.Call) *part {
	p, ok := c.Ctl.(*part)
	if !ok {
		p = new(part)
		c.Ctl = p
	}
	return p
}

// queue queues a call that is one command in one namespace. It is called under the lock of
// its session's line, so that commands are queued in their order.
func (n *Node) queue(
	c *wire.Call, e errand, r *wire.Routes, since time.Duration, ln *line, came uint64, logs *touched,
) *wire.Error {
	group := n.groupOf(e.ns)
	if err := n.admit(group); err != nil {
		return err
	}
	l, p := n.logOf(group), partOf(c)
	*p = part{
		Command: replica.Command{
			Group: group, Op: c.Op, NArgs: c.NArgs, Body: c.Body, NSLen: e.head, Version: r.Version,
			Session: c.Session, ID: c.ID, Settled: c.Settled,
		},
		call:    c,
		log:     l,
		since:   since,
		counted: true,
		ns:      e.ns,
		routes:  r,
		came:    came,
	}
	if c.Op == wire.OpAcquire {
		p.owner = c.Req.Owner
		p.hasty = c.Req.Flags&wire.FlagNoQueue != 0
		p.Meta = c.Session.Meta
		if len(c.Req.Meta) > 0 {
			p.Meta = c.Req.Meta
		}
		if p.waits = c.Req.Flags&wire.FlagWait != 0; p.waits {
			p.until = since + waitOf(c.Req) + waitSlack
		}
	}
	if c.Bound {
		p.Bound, p.Grace = true, c.Grace
	}
	if p.waits {
		var to repliers
		attached := n.attach(p, &to)
		to.flush()
		if !attached {
			n.finish(p)
			return superseded.Err()
		}
	}
	ln.enter(p)
	if !l.enqueue(p) {
		ln.drop(p)
		n.countOut(group)
		p.counted = false
		if p.waits {
			n.waits.take(p.caller(), p)
		}
		return logClosed.Err()
	}
	logs.add(l)
	return nil
}

// waitSlack is how long after the end of a wait's time its answer is waited for: it comes
// from the leader, unless that cannot be heard.
const waitSlack = time.Second

// waitOf is how long an acquire may wait in the queue.
func waitOf(req *wire.Request) time.Duration {
	ms := req.QueueTTLMillis
	if ms == 0 {
		ms = wire.DefaultQueueTTLMillis
	}
	return time.Duration(ms) * time.Millisecond
}

// Cancel implements wire.Handler.
func (n *Node) Cancel(s *wire.Session, id uint64) {
	ln := lineOf(s)
	ln.mu.Lock() // meanwhile it is either held back or not
	held := ln.takeOut(n, func(p *part) bool { return p.waits && p.ID == id })
	var w wait
	var ok bool
	if len(held) == 0 {
		if w, ok = n.waits.end(engine.Caller{Session: engine.Session(s.ID), ID: id}); !ok {
			w, ok = n.waits.givenUp(s, id)
		}
	}
	ln.mu.Unlock()
	for _, p := range held {
		n.cancelHeld(p)
	}
	if ok {
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
	lineOf(s).end()
	ended := n.waits.endAll(engine.Session(s.ID), func(p *part) (grace uint64, ok bool) {
		switch {
		case p.Session.Epoch > s.Epoch:
			return 0, false // asked again on a later connection
		case p.from != nil:
			return 0, false // and on another node
		case resumed:
			return uint64(reattachGrace.Milliseconds()), true
		}
		return graceOfTie, true
	})
	for _, w := range n.waits.left(s) {
		if w.grace = graceOfTie; resumed {
			w.grace = uint64(reattachGrace.Milliseconds())
		}
		ended = append(ended, w)
	}
	for _, w := range ended {
		n.endWait(w)
	}
	n.closedHeld(s)
	if !tied || resumed {
		return
	}
	for _, l := range n.ordered() {
		if l.shard != rows.SystemLog {
			n.detach(l, s)
		}
	}
}

// Tell implements wire.Handler.
func (n *Node) Tell(id [wire.SessionBytes]byte, tell func(*wire.LeaseEvent)) (stop func()) {
	return n.hub.Leases.Add(id, tell)
}

// Subscribe implements wire.Handler.
func (n *Node) Subscribe(sub *wire.Subscription) ([]wire.Position, *wire.Error) {
	return n.hub.Subscribe(sub), nil
}

// Unsubscribe implements wire.Handler.
func (n *Node) Unsubscribe(sub *wire.Subscription) { n.hub.Unsubscribe(sub) }

// Tap calls t with every event this node sees, and missed when there were some that
// it did not see, until the returned function is called. Neither may block.
func (n *Node) Tap(t events.Tap, missed func()) func() { return n.hub.Tap(t, missed) }
