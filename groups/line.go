package groups

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// The order of a session.
//
// Requests of a connection about one namespace that are acquires, releases or renewals are
// carried out in the order in which they were sent. A log keeps the order of what is queued
// in it; what breaks it is a routing change. One request may meet it and be refused as Moved
// (engine.State.moved), and the one behind it not; or they are resolved with different
// routes, and go to different logs. So:
//
//   - What a session asks in a namespace is resolved with the routes that what it asked there
//     before was, for as long as that is not answered: it goes to the same log, where the
//     engine refuses both or neither, or the second alone.
//   - What was refused as Moved is held back here, in the order in which it came, and what the
//     session asks in its namespace after that stands behind it. It costs nothing while it is
//     held.
//   - It goes on its way again, resolved anew, when this node knows the routes that it was
//     refused for the want of and everything before it in its namespace is answered; in its
//     order.
//
// A renewal does not stand behind others: a lease that is there must not run out because of a
// move. Only one that finds no lease is held back, while an acquire before it is.
//
// It is held until its time is over, its call is cancelled, or its connection ends.

// line is what one connection asks in that order. It is taken before the lock of a log and
// that of moves, and after that of a machine.
type line struct {
	mu      sync.Mutex
	routes  *wire.Routes // the latest that were looked at
	under   *part        // the last of those queued and not answered; they are linked backwards
	older   int          // of these, those resolved with earlier routes
	held    []*part      // in the order in which they came
	came    uint64
	listed  bool            // it is one of moves.lines, whose lock guards this
	resumed map[uint64]bool // logs that know of the connection (resume.go)
	left    chan struct{}   // closed when an acquire may be gone, or over is set; nil: nobody waits (ties.go)
	over    bool            // the connection ended: nothing of it is sent on its way any more, but releases

	// cut is when (part.came) the first acquire came that was dropped as the connection ended, 0 when none was.
	// Nothing behind it is sent on its way: a release would find nothing, and be done before when the client asks
	// both again, while the acquire is new.
	cut atomic.Uint64
}

// cuts notes that an acquire of a connection that ended is dropped.
func (ln *line) cuts(came uint64) {
	for {
		old := ln.cut.Load()
		if old != 0 && old <= came || ln.cut.CompareAndSwap(old, came) {
			return
		}
	}
}

// behindCut says that something came behind such an acquire.
func (ln *line) behindCut(came uint64) bool {
	cut := ln.cut.Load()
	return cut != 0 && came > cut
}

// lineOf answers the line of a connection.
func lineOf(s *wire.Session) *line {
	if ln, ok := s.Ctl.Load().(*line); ok {
		return ln
	}
	s.Ctl.CompareAndSwap(nil, new(line))
	return s.Ctl.Load().(*line)
}

// errand is a request that is one command in one namespace.
type errand struct {
	ns   string
	head int // how much of its first path is the namespace, 0 for one without paths; all and one more for a short path
}

// errandOf resolves a request. ok is false when it is no such one.
func errandOf(r *wire.Routes, req *wire.Request) (e errand, ok bool, err *wire.Error) {
	switch req.Op {
	case wire.OpAcquire:
		first := replica.SubjectOf(req)
		ns := r.Resolve(first)
		for i := range req.Locks {
			if other := r.Resolve(req.Locks[i].Path); other != ns {
				return e, false, spans(first, ns, req.Locks[i].Path, other)
			}
		}
		for i := range req.Releases {
			if other := r.Resolve(req.Releases[i].Path); other != ns {
				return e, false, spans(first, ns, req.Releases[i].Path, other)
			}
		}
		head := len(ns)
		// else it has more segments than its namespace
		if head == len(first) && wire.Segments(ns) < r.Segments && !r.Has(ns) {
			head++
		}
		return errand{ns, head}, true, nil
	case wire.OpRelease:
		ns, one := oneNamespace(r, req.Releases)
		// else claims.go
		return errand{ns, len(ns)}, one && !req.DelWait && (req.Key == "" || len(req.Releases) == 1), nil
	case wire.OpRenew:
		if len(req.Domains) == 1 && strings.IndexByte(req.Domains[0], ':') >= 0 {
			ns := r.Resolve(req.Domains[0])
			return errand{ns, 0}, ns == req.Domains[0], nil
		}
	}
	return e, false, nil
}

// touches says that a request is about a namespace, as routes resolve it.
func touches(req *wire.Request, r *wire.Routes, ns string) bool {
	return slices.ContainsFunc(req.Locks, func(l wire.LockRequest) bool { return r.Resolve(l.Path) == ns }) ||
		slices.ContainsFunc(req.Releases, func(l wire.ReleaseRequest) bool { return r.Resolve(l.Path) == ns })
}

// inLine sends a call on its way that is one command in one namespace, behind what its
// session asked there before. ok is false when it is no such call, and nothing was done.
func (n *Node) inLine(c *wire.Call, since time.Duration, logs *touched) (ok bool, err *wire.Error) {
	ln := lineOf(c.Session)
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.stops(c.Op, ln.came+1) {
		return true, connectionOver.Err()
	}
	r := ln.look(n.routes.Load())
	e, ok, err := errandOf(r, c.Req)
	if c.Op != wire.OpRenew && engine.Planted != engine.PlantOutOfLine {
		for i := len(ln.held) - 1; i >= 0; i-- {
			if h := ln.held[i]; h.Op != wire.OpRenew && touches(c.Req, h.routes, h.ns) {
				if ok && err == nil {
					return true, n.standBehind(ln, c, e.ns, r, since)
				}
				return true, n.standBehind(ln, c, h.ns, h.routes, since)
			}
		}
		before := r
		for u := ln.under; ln.older > 0 && u != nil; u = u.prev {
			if u.routes == before || u.Op == wire.OpRenew || !touches(c.Req, u.routes, u.ns) {
				continue
			}
			_, same, no := errandOf(u.routes, c.Req)
			// What it comes behind is of several routes, or it spanned namespaces by those and spans none now.
			if ok && err == nil && (before != r || !same || no != nil) {
				return true, n.standBehind(ln, c, e.ns, r, since)
			}
			if before == r {
				before = u.routes
			}
		}
		if before != r {
			r = before
			e, ok, err = errandOf(r, c.Req)
		}
	}
	if !ok || err != nil {
		return false, err
	}
	l := n.logOf(n.groupOf(e.ns))
	if err := n.redirects(c, l); err != nil {
		return true, err
	}
	if err := n.refusesIn(c.Op, l); err != nil {
		return true, err
	}
	ln.came++
	return true, n.queue(c, e, r, since, ln, ln.came, logs)
}

// look notes the latest routes, and answers them. It is called under the lock.
func (ln *line) look(r *wire.Routes) *wire.Routes {
	if ln.routes != r {
		ln.routes, ln.older = r, 0
		for u := ln.under; u != nil; u = u.prev {
			if u.routes != r {
				ln.older++
			}
		}
	}
	return r
}

// standBehind holds a call back that is about a namespace of routes, and comes after one that is held back or was
// resolved with earlier routes. It is called under the lock.
func (n *Node) standBehind(ln *line, c *wire.Call, ns string, r *wire.Routes, since time.Duration) *wire.Error {
	if err := n.moves.room(); err != nil {
		return err
	}
	ln.came++
	p := partOf(c)
	*p = part{
		Command: replica.Command{Op: c.Op, Session: c.Session, ID: c.ID},
		call:    c,
		since:   since,
		waits:   c.Req.Flags&wire.FlagWait != 0 && c.Op == wire.OpAcquire,
		line:    ln,
		ns:      ns,
		routes:  r,
		came:    ln.came,
	}
	if c.Op == wire.OpAcquire {
		p.owner = c.Req.Owner
	}
	ln.held = append(ln.held, p)
	n.moves.hold(ln)
	return nil
}

// enter puts a part last among those under way. It is called under the lock.
func (ln *line) enter(p *part) {
	p.line, p.prev, p.under = ln, ln.under, true
	if ln.under != nil {
		ln.under.next = p
	}
	if ln.under = p; p.routes != ln.routes {
		ln.older++
	}
}

// drop takes a part out of those under way. It is called under the lock.
func (ln *line) drop(p *part) {
	if !p.under {
		return
	}
	if p.prev != nil {
		p.prev.next = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		ln.under = p.prev
	}
	p.prev, p.next, p.under = nil, nil, false
	if p.routes != ln.routes {
		ln.older--
	}
	if p.Op == wire.OpAcquire {
		ln.gone()
	}
}

// leave takes a part out that is answered, or whose call waits in the queue.
func (ln *line) leave(n *Node, p *part) {
	ln.mu.Lock()
	ln.drop(p)
	waits := len(ln.held) > 0
	ln.mu.Unlock()
	if waits {
		n.moves.rouse()
	}
}

// keeps holds a part back if what it was answered says that it met a move. It turns the answer
// of one that cannot be held into why.
func (ln *line) keeps(n *Node, p *part, res *wire.Result) bool {
	moved := res.Code == wire.Unavailable && res.Position == engine.Moved
	if !moved && (p.Op != wire.OpRenew || res.Code != wire.OK || res.Status != wire.RenewLost) {
		return false
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	switch {
	case moved && p.told.Load():
		*res = movedAway
		return false
	case !moved && !ln.acquires(p):
		return false
	}
	if ln.over && p.Op == wire.OpAcquire {
		ln.cuts(p.came)
	}
	if _, over := n.waits.ended(p); p.waits && over {
		*res = cancelledInMove(p)
		return false
	}
	if ln.stops(p.Op, p.came) {
		*res = connectionOver
		return false
	}
	if err := n.moves.room(); err != nil {
		res.Fail(err)
		res.Position = 0
		return false
	}
	if p.counted {
		p.counted = false
		n.countOut(p.Group)
	}
	if p.waits {
		n.waits.take(p.caller(), p)
	}
	ln.drop(p)
	if p.need = 0; moved {
		p.need = max(res.Count, p.Version+1)
	}
	at, _ := slices.BinarySearchFunc(ln.held, p.came, func(h *part, came uint64) int {
		if h.came < came {
			return -1
		}
		return 1
	})
	if engine.Planted == engine.PlantOutOfLine {
		at = 0
	}
	ln.held = slices.Insert(ln.held, at, p)
	n.moves.hold(ln)
	return true
}

// acquires says that the session asked for locks in the namespace of a renewal before it, and
// has no answer. It is called under the lock.
func (ln *line) acquires(p *part) bool {
	before := func(q *part) bool {
		return q.Op == wire.OpAcquire && q.came < p.came && (q.ns == p.ns || q.routes != p.routes && meet(q.ns, p.ns))
	}
	for u := ln.under; u != nil; u = u.prev {
		if before(u) {
			return true
		}
	}
	return slices.ContainsFunc(ln.held, before)
}

// cancelledInMove answers a wait that was ended while it was held back. It took nothing on this
// connection; what became of it when it was asked before no log was asked.
func cancelledInMove(p *part) (res wire.Result) {
	if p.askedBefore() {
		res.Fail(wire.Errorf(wire.DeadlineExceeded,
			"the waiting acquire was cancelled while its namespace was being moved; what became of it when it was "+
				"asked before is not known"))
		return res
	}
	res.Fail(wire.Errorf(wire.Cancelled, "the waiting acquire was cancelled"))
	return res
}

// connectionOver answers what had not been sent on its way when its connection ended.
var connectionOver = wire.Result{Code: wire.Cancelled, Message: "the connection ended; nothing was done"}

// stops says that a request of a connection that ended is not sent on its way: whatever it took
// would come after the end of the connection, which nobody tells again. It is called under the
// lock, and the end is told after that (Node.Closed). Releases are, unless an acquire before them was not.
func (ln *line) stops(op wire.Op, came uint64) bool {
	if !ln.over || engine.Planted == engine.PlantLateBound {
		return false
	}
	if op == wire.OpAcquire {
		ln.cuts(came)
	}
	return op != wire.OpRelease || ln.behindCut(came)
}

// isOver says that the connection ended.
func (ln *line) isOver() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.over
}

// end notes that the connection ended.
func (ln *line) end() {
	ln.mu.Lock()
	ln.over = true
	ln.gone()
	ln.mu.Unlock()
}

// tooLongInMove answers a call that was held back for too long.
var tooLongInMove = wire.Result{
	Code:    wire.Unavailable,
	Message: "the namespace was being moved for all of request_timeout_ms; nothing was done",
}

// movedAway answers a call whose place in the queue went with a move that it did not hear of.
var movedAway = wire.Result{Code: wire.Aborted, Message: "the namespace was moved while the request waited"}

// unheld is a call that was held back, and what it is answered.
type unheld struct {
	p   *part
	res wire.Result
}

// advance sends on what need not be held back any more, and answers what was for too long. It
// says whether something still is.
func (ln *line) advance(n *Node, now time.Duration, logs *touched) (over []unheld, held bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	r := ln.look(n.routes.Load())
	var stays []string // namespaces of those that are held on
	kept := ln.held[:0]
	for _, p := range ln.held {
		switch {
		case now-p.since >= n.cfg.RequestTimeout && engine.Planted != engine.PlantHeldForGood:
			over = append(over, unheld{p, tooLongInMove})
		case p.need > r.Version || ln.behind(p, r) ||
			p.Op == wire.OpRenew && (p.need == 0 || r.Resolve(p.ns) != p.ns) && ln.acquires(p),
			slices.ContainsFunc(stays, func(ns string) bool { return meet(ns, p.ns) }):
			if !slices.Contains(stays, p.ns) {
				stays = append(stays, p.ns)
			}
			kept = append(kept, p)
		default:
			if err := n.sendOn(ln, p, r, logs); err != nil {
				u := unheld{p: p}
				u.res.Fail(err)
				over = append(over, u)
			}
			continue
		}
	}
	n.moves.count.Add(int64(len(kept) - len(ln.held)))
	clear(ln.held[len(kept):])
	ln.held = kept
	if len(over) > 0 {
		ln.gone()
	}
	return over, len(kept) > 0
}

// behind says that something that came before a part in its namespace, and was resolved with
// earlier routes, is not answered. It is called under the lock.
func (ln *line) behind(p *part, r *wire.Routes) bool {
	for u := ln.under; ln.older > 0 && u != nil; u = u.prev {
		if u.came < p.came && u.routes != r && meet(u.ns, p.ns) {
			return true
		}
	}
	return false
}

// meet says that two namespaces, which may be of different routes, may be about the same path: one lies in the other.
func meet(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || a != "" && strings.HasPrefix(b, a) && (a[len(a)-1] == '/' || b[len(a)] == '/' || b[len(a)] == ':')
}

// sendOn sends a call on its way that was held back. It is called under the lock.
func (n *Node) sendOn(ln *line, p *part, r *wire.Routes, logs *touched) *wire.Error {
	if ln.stops(p.Op, p.came) {
		return connectionOver.Err()
	}
	c, since := p.call, p.since
	c.Req = new(wire.Request)
	if err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, c.Req); err != nil {
		return err
	}
	e, ok, err := errandOf(r, c.Req)
	switch {
	case err != nil:
		return err
	case !ok: // it spans namespaces now: what came after it is held back until it is answered
		ln.enter(p)
		err := n.steppedThen(c, since, func() { ln.leave(n, p) })
		if err != nil {
			ln.drop(p)
		}
		return err
	}
	return n.queue(c, e, r, since, ln, p.came, logs)
}

// take takes those out of what is held back that are.
func (ln *line) take(n *Node, are func(*part) bool) (taken []*part) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.takeOut(n, are)
}

// takeOut is take, called under the lock.
func (ln *line) takeOut(n *Node, are func(*part) bool) (taken []*part) {
	ln.held = slices.DeleteFunc(ln.held, func(p *part) bool {
		if are(p) {
			taken = append(taken, p)
			return true
		}
		return false
	})
	n.moves.count.Add(int64(-len(taken)))
	if len(taken) > 0 {
		n.moves.rouse() // for those behind them
		ln.gone()
	}
	return taken
}
