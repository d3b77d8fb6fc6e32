package groups

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// Ends of connections and of waits.
//
// Nobody but this node tells a log that a connection ended, or that a wait was given up. So it
// tells until it was heard: what no leader took in time is told again.
//
// Meanwhile the client may ask for the wait anew, on the same connection and under the same id,
// as who is told that the outcome is not known does: the log cannot tell the end of the one from
// that of the other. So the end of a wait comes before what its client asks since, or it is not
// told while that is open. It is forgotten when that has its place: from then on its own end
// counts. And it is told after all when that came to nothing: else what the client gave up would
// be granted, and nobody would know.

const (
	// endAgain is how often ends that were not heard are told again.
	endAgain = time.Second
	// maxEnds is how many are remembered to be told again; over it the oldest are forgotten,
	// and what they were to end lasts for its own time.
	maxEnds = 262_144
)

// unheardEnds is what is to be told again.
type unheardEnds struct {
	mu   sync.Mutex
	list []func()
}

// add remembers to tell an end again.
func (u *unheardEnds) add(tell func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) >= maxEnds {
		u.list = append(u.list[:0], u.list[maxEnds/2:]...)
	}
	u.list = append(u.list, tell)
}

// take takes all out.
func (u *unheardEnds) take() []func() {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.list
	u.list = nil
	return list
}

// endLoop tells again what was not heard.
func (n *Node) endLoop() {
	n.every(endAgain, func() {
		for _, tell := range n.unheard.take() {
			tell()
		}
	})
}

// ends answers what takes the answer to an end, and has it told again if that says that it was
// not heard, or perhaps not. To tell it twice does no harm.
func (n *Node) ends(tell func()) func(*part, *wire.Result) {
	return func(_ *part, res *wire.Result) {
		if unheard(res) {
			n.unheard.add(tell)
		}
	}
}

// unheard says that the answer to an end does not say that it was heard.
func unheard(res *wire.Result) bool {
	return res.Code == wire.Unavailable || res.Code == wire.DeadlineExceeded
}

// detach tells a log that a connection ended, to which leases may be tied.
func (n *Node) detach(l *shardLog, s *wire.Session) {
	body, nargs := wire.AppendArgs(nil, &wire.Request{Op: wire.OpDetach})
	n.inflight[n.slot(replica.EveryGroup)].Add(1)
	l.push(&part{
		Command: replica.Command{Group: replica.EveryGroup, Op: wire.OpDetach, NArgs: nargs, Body: body, Session: s},
		done:    n.ends(func() { n.detach(l, s) }),
		since:   n.clock.Mono(),
		counted: true,
	})
	l.start()
}

// endWait ends an open call's wait. It goes through the queue of the log that the acquire
// went through, and so comes after it; what its client asked for anew it does not come after.
func (n *Node) endWait(w wait) {
	if asked, told := n.pushEnd(w, n.ending(w)); asked && !told {
		n.unheard.add(func() { n.endWait(w) })
	}
}

// pushEnd queues the end of a wait, unless its client has asked for it anew: asked says so, and
// told that it was told its place. What is asked for is open before it is queued (attach), and
// this looks for it with the queue locked: so if it is not there, it comes behind.
func (n *Node) pushEnd(w wait, p *part) (asked, told bool) {
	pushed := p.log.pushIf(p, func() bool {
		asked, told = n.waits.again(w)
		return !asked
	})
	if !pushed {
		n.finish(p)
		return asked, told
	}
	p.log.start()
	return false, false
}

// cancelHeld ends a wait that was held back by a move. One that was asked before may have its place
// of then, which nobody else ends before its connection's grace is over: so the logs where that can be
// are told, and the call is answered when they have heard it. No copy comes after that.
func (n *Node) cancelHeld(p *part) {
	res := cancelledInMove(p)
	if !p.askedBefore() {
		answerAll([]*part{p}, &res)
		return
	}
	w := wait{group: n.groupOf(p.ns), session: p.Session, id: p.ID, cancel: true}
	if before, ok := n.waits.end(p.caller()); ok { // on an earlier connection, to this node
		w.asked = before.asked
	}
	groups := []uint16{w.group}
	req := new(wire.Request)
	if err := wire.DecodeArgs(p.Op, p.call.Body, p.call.NArgs, req); err == nil {
		if now := n.groupOf(n.routes.Load().Resolve(replica.SubjectOf(req))); now != w.group {
			groups = append(groups, now)
		}
	}
	told := newTogether(n.tasks)
	for _, w.group = range groups {
		end := n.ending(w)
		told.add()
		n.tellResumed(end.log, p.Session, p.ID, end.since, func(*part, *wire.Result) { told.done() })
		heard := end.done
		told.add()
		end.done = func(e *part, res *wire.Result) {
			heard(e, res)
			told.done()
		}
		end.log.push(end)
		end.log.start()
	}
	n.tasks.run(func() {
		told.wait()
		answerAll([]*part{p}, &res)
	})
}

// ending is the command that ends a wait.
func (n *Node) ending(w wait) *part {
	req := &wire.Request{Op: wire.OpCancelWait, Target: w.id, GraceMillis: w.grace, Explicit: w.cancel}
	if w.grace == graceOfTie {
		req.GraceMillis, req.Kinds = 0, engine.GraceOfTie
	}
	body, nargs := wire.AppendArgs(nil, req)
	n.inflight[n.slot(w.group)].Add(1)
	return &part{
		Command: replica.Command{Group: w.group, Op: wire.OpCancelWait, NArgs: nargs, Body: body, Session: w.session},
		done:    n.ends(func() { n.endWait(w) }),
		log:     n.logOf(w.group),
		since:   n.clock.Mono(),
		counted: true,
	}
}
