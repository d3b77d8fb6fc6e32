package groups

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// openWaits is the open calls of this node: acquires that wait for their grant. They are
// found by their session, so that a connection that closes costs what it has open, and not
// what the node has.
type openWaits struct {
	mu    sync.Mutex
	calls map[engine.Session]map[uint64]openWait // by request id
	asked uint64                                 // how many were added

	// Waits that have a grace to be asked again, as their clients were told that nobody knows: they end with their
	// connections.
	graced map[engine.Session][]gracedWait
	swept  time.Duration // when those were let go of last whose grace is over
}

// gracedWait is a wait that ends when its grace is over.
type gracedWait struct {
	wait
	until time.Duration
}

// gives notes such a wait, which is ended with a grace. The end of a connection that ended before was told.
func (w *openWaits) gives(of wait, now time.Duration) {
	if of.grace == 0 || lineOf(of.session).isOver() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now-w.swept >= reattachGrace {
		w.swept = now
		for id, all := range w.graced {
			if all = slices.DeleteFunc(all, func(g gracedWait) bool { return g.until <= now }); len(all) == 0 {
				delete(w.graced, id)
			} else {
				w.graced[id] = all
			}
		}
	}
	if w.graced == nil {
		w.graced = make(map[engine.Session][]gracedWait)
	}
	id := engine.Session(of.session.ID)
	w.graced[id] = append(w.graced[id], gracedWait{of, now + time.Duration(of.grace)*time.Millisecond})
}

// left takes those of a connection that ended out, to be ended without that grace.
func (w *openWaits) left(s *wire.Session) (ended []wait) {
	return w.notGraced(s, func(of *wait) bool { return of.session.Epoch == s.Epoch })
}

// givenUp takes the one of a request out that is cancelled, to be ended likewise.
func (w *openWaits) givenUp(s *wire.Session, id uint64) (over wait, ok bool) {
	for _, over = range w.notGraced(s, func(of *wait) bool { return of.id == id }) {
		over.grace, over.cancel, ok = 0, true, true // once, if its client was told several times
	}
	return over, ok
}

// notGraced takes those of a session out that are.
func (w *openWaits) notGraced(s *wire.Session, are func(*wait) bool) (out []wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := engine.Session(s.ID)
	if len(w.graced[id]) == 0 {
		return nil
	}
	all := slices.DeleteFunc(w.graced[id], func(g gracedWait) bool {
		yes := are(&g.wait)
		if yes {
			out = append(out, g.wait)
		}
		return yes
	})
	if w.graced[id] = all; len(all) == 0 {
		delete(w.graced, id)
	}
	return out
}

// opens notes that p's call has its place in the queue of a namespace, and tells it, while nobody else may answer it.
// It answers false when another one has taken its place here, and with what it is to be answered then.
func (w *openWaits) opens(p *part, res *wire.Result, to *repliers) (instead *wire.Result, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := p.caller()
	if now := w.calls[c.Session][c.ID].part; now != p {
		return p.replaced(now), false
	}
	p.open, p.in = true, res.Namespace
	p.queued(res, to)
	return nil, true
}

// replaced is what a call is answered whose request was asked again by another one.
func (p *part) replaced(by *part) *wire.Result {
	if by != nil && by.Session.Epoch == p.Session.Epoch {
		return &askedTwice
	}
	return &superseded
}

// answers takes the open call that the answer to a wait is for, nil when there is none. A repeat that is still on its
// way to its log is answered when it arrives: its part is in a batch, and must not be used for another call before that
// landed. What a client asked under the same id elsewhere is no repeat.
func (w *openWaits) answers(l *shardLog, a *engine.Answer) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.calls[a.Caller.Session]
	p := of[a.Caller.ID].part
	if p == nil || p.log != l || !p.open || p.in != a.NS {
		return nil
	}
	if delete(of, a.Caller.ID); len(of) == 0 {
		delete(w.calls, a.Caller.Session)
	}
	return p
}

// reopens takes an open call's part out of the hands of who would answer it, to be asked anew.
func (w *openWaits) reopens(p *part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := p.caller(); w.calls[c.Session][c.ID].part != p || !p.open {
		return false
	}
	p.open, p.tried = false, true
	return true
}

// openWait is one open call.
type openWait struct {
	part *part
	over *wait // how its wait was ended, nil: it was not
}

// wait is what names a waiting acquire, to end it after a grace in ms. A part may be
// another call's once it is out of openWaits.
type wait struct {
	group   uint16
	session *wire.Session
	id      uint64
	asked   uint64 // tells it from what its client asked for under the same id since; 0: from all that is open
	grace   uint64
	cancel  bool // its client gave it up, and did not only go
}

// graceOfTie is the grace of a wait whose connection ended: the log knows it.
const graceOfTie = math.MaxUint64

// add notes that p's call is open. It takes the place of an earlier call of the
// same request, whose connection is gone, and answers that if nobody else does. A call on an earlier
// connection of its session than the one that is open does not: ok is false.
func (w *openWaits) add(p *part) (was *part, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[engine.Session]map[uint64]openWait)
	}
	c := p.caller()
	of := w.calls[c.Session]
	if of == nil {
		of = make(map[uint64]openWait)
		w.calls[c.Session] = of
	}
	was = of[c.ID].part
	if was != nil && was.Session.Epoch > p.Session.Epoch {
		return nil, false
	}
	w.asked++
	p.asked = w.asked
	of[c.ID] = openWait{part: p}
	switch {
	case was == nil || was == p:
		return nil, true
	case was.from != nil:
		return was, true
	case was.Session.Epoch < p.Session.Epoch:
		was.gone.Store(true)
	}
	if !was.open {
		return nil, true // its own answer does, when it comes (deliver)
	}
	was.open = false
	return was, true
}

// take removes the open call of a request, if it is still that one.
func (w *openWaits) take(c engine.Caller, p *part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.calls[c.Session]
	if p == nil || of[c.ID].part != p {
		return false
	}
	if delete(of, c.ID); len(of) == 0 {
		delete(w.calls, c.Session)
	}
	return true
}

// get answers the open call of a request, nil when there is none.
func (w *openWaits) get(c engine.Caller) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[c.Session][c.ID].part
}

// end notes that the wait of a request is ended, and names it.
func (w *openWaits) end(c engine.Caller) (ended wait, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[c.Session][c.ID].part == nil {
		return ended, false
	}
	return w.note(c, 0, true), true
}

// endAll does the same for the requests of a session, as far as choose says, which
// answers the grace.
func (w *openWaits) endAll(s engine.Session, choose func(*part) (grace uint64, ok bool)) (ended []wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.calls[s])) {
		if grace, ok := choose(w.calls[s][id].part); ok {
			ended = append(ended, w.note(engine.Caller{Session: s, ID: id}, grace, false))
		}
	}
	return ended
}

// note is called under the lock, for a call that is open.
func (w *openWaits) note(c engine.Caller, grace uint64, cancel bool) wait {
	p := w.calls[c.Session][c.ID].part
	over := p.wait()
	over.grace, over.cancel = grace, cancel
	if !cancel {
		p.gone.Store(true)
	}
	w.calls[c.Session][c.ID] = openWait{part: p, over: &over}
	return over
}

// again says that the client of a wait has asked for it anew since and has no answer, and that
// it was told its place then. A call on an earlier connection is none that came since: it is open here
// yet if the client asked elsewhere, while another node led and this one did not hear of that.
func (w *openWaits) again(of wait) (asked, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.calls[engine.Session(of.session.ID)][of.id].part
	asked = p != nil && p.asked != of.asked && p.Session.Epoch >= of.session.Epoch
	return asked, asked && p.told.Load()
}

// ended says that the wait of p was ended, and names it.
func (w *openWaits) ended(p *part) (over wait, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := p.caller()
	if o := w.calls[c.Session][c.ID]; o.part == p && o.over != nil {
		return *o.over, true
	}
	return over, false
}

// those answers the open calls that are. It looks at all of them.
func (w *openWaits) those(are func(*part) bool) (parts []*part) {
	w.mu.Lock()
	for _, of := range w.calls {
		for _, o := range of {
			if are(o.part) {
				parts = append(parts, o.part)
			}
		}
	}
	w.mu.Unlock()
	slices.SortFunc(parts, byCaller)
	return parts
}

// byCaller orders parts by session and request.
func byCaller(a, b *part) int {
	return cmp.Or(bytes.Compare(a.Session.ID[:], b.Session.ID[:]), cmp.Compare(a.ID, b.ID))
}

// attach notes the open call of a part, in place of an earlier call of its request. It
// answers false when the open call is of a later connection: a node that was cut off or
// paused asks for a wait as it knew it, while the client goes on elsewhere.
func (n *Node) attach(p *part, to *repliers) bool {
	was, ok := n.waits.add(p)
	if was == nil {
		return ok
	}
	// the call is used again, while others may look at the part still, to find that it is open no more
	if c := was.call; c != nil {
		c.Ctl, c.Res = nil, *was.replaced(p)
		to.add(c.To)
		c.To.Reply(c)
		return ok
	}
	was.answer(was.replaced(p), to)
	return ok
}

// superseded answers a call whose request was asked again on a later connection.
var superseded = wire.Result{Code: wire.Aborted,
	Message: "the request was asked again on a later connection of its session"}

// askedTwice answers a call whose request was asked again on the same connection.
var askedTwice = wire.Result{
	Code: wire.DeadlineExceeded, Message: "the request was asked again on its connection while it waited: what " +
		"becomes of it is told there",
}

// changeCalls is the calls of policy changes that are under way, by their number.
type changeCalls struct {
	mu    sync.Mutex
	calls map[uint64][]*part
}

func (c *changeCalls) add(id uint64, p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[uint64][]*part)
	}
	c.calls[id] = append(c.calls[id], p)
}

func (c *changeCalls) take(id uint64) []*part {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := c.calls[id]
	delete(c.calls, id)
	return parts
}

// all takes every call out.
func (c *changeCalls) all() (parts []*part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		parts = append(parts, c.calls[id]...)
	}
	clear(c.calls)
	return parts
}

// late answers those whose time is over, and says whether some are left.
func (c *changeCalls) late(n *Node, now time.Duration) (left bool) {
	var over []*part
	c.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		c.calls[id] = slices.DeleteFunc(c.calls[id], func(p *part) bool {
			late := now-p.since >= n.cfg.RequestTimeout
			if late {
				over = append(over, p)
			}
			return late
		})
		if len(c.calls[id]) == 0 {
			delete(c.calls, id)
		}
	}
	left = len(c.calls) > 0
	c.mu.Unlock()
	var to repliers
	for _, p := range over {
		p.answer(&changeHeldUp, &to)
	}
	to.flush()
	return left
}

// changeHeldUp answers a policy change that takes too long.
var changeHeldUp = wire.Result{
	Code: wire.DeadlineExceeded,
	Message: "the policy change was accepted and is held up: it is carried out when all logs that it involves " +
		"have a leader; " +
		"repeat it with the same idempotency_key or request id to learn its outcome",
}

// any says that policy changes are under way.
func (c *changeCalls) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}
