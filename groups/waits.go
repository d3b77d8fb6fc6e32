package groups

import (
	"sync"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// openWaits is the open calls of this node: acquires that wait for their grant.
type openWaits struct {
	mu    sync.Mutex
	calls map[engine.Caller]*part
	over  map[engine.Caller]uint64 // those whose wait was ended, after a grace in ms
}

// wait is what names a waiting acquire, to end it after a grace in ms. A part may be
// another call's once it is out of openWaits.
type wait struct {
	group   uint16
	session *wire.Session
	id      uint64
	grace   uint64
}

// add notes that p's call is open. It takes the place of an earlier call of the
// same request, whose connection is gone, and answers that.
func (w *openWaits) add(p *part) (was *part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[engine.Caller]*part)
	}
	c := p.caller()
	was = w.calls[c]
	w.calls[c] = p
	delete(w.over, c)
	return was
}

// take removes the open call of a request, if it is still that one.
func (w *openWaits) take(c engine.Caller, p *part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[c] != p {
		return false
	}
	delete(w.calls, c)
	delete(w.over, c)
	return true
}

// get answers the open call of a request, nil when there is none.
func (w *openWaits) get(c engine.Caller) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[c]
}

// end notes that the wait of a request is ended, and names it.
func (w *openWaits) end(c engine.Caller) (ended wait, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.calls[c]
	if p == nil {
		return ended, false
	}
	return w.note(c, p, 0), true
}

// endAll does the same for the requests of a session, as far as choose says, which
// answers the grace.
func (w *openWaits) endAll(s engine.Session, choose func(*part) (grace uint64, ok bool)) (ended []wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, p := range w.calls {
		if c.Session != s {
			continue
		}
		if grace, ok := choose(p); ok {
			ended = append(ended, w.note(c, p, grace))
		}
	}
	return ended
}

func (w *openWaits) note(c engine.Caller, p *part, grace uint64) wait {
	if w.over == nil {
		w.over = make(map[engine.Caller]uint64)
	}
	w.over[c] = grace
	return wait{p.group, p.session, p.id, grace}
}

// ended says that the wait of p was ended, and after which grace.
func (w *openWaits) ended(p *part) (grace uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := p.caller(); w.calls[c] == p {
		grace, ok = w.over[c]
	}
	return grace, ok
}

// those answers the open calls that are.
func (w *openWaits) those(are func(*part) bool) (parts []*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.calls {
		if are(p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// attach notes the open call of a part, in place of an earlier call of its request.
func (n *Node) attach(p *part, to *repliers) {
	if was := n.waits.add(p); was != nil && was != p && was.from != nil {
		was.answer(&superseded, to)
	}
}

// superseded answers a call whose request was asked again on a later connection.
var superseded = wire.Result{Code: wire.Aborted, Message: "the request was asked again on a later connection of its session"}

// endWait ends an open call's wait. It goes through the queue of the log that the acquire
// went through, and so comes after it.
func (n *Node) endWait(w wait) {
	p := n.ending(w)
	p.log.push(p)
	p.log.start()
}

// ending is the command that ends a wait.
func (n *Node) ending(w wait) *part {
	body, nargs := wire.AppendArgs(nil, &wire.Request{Op: wire.OpCancelWait, Target: w.id, GraceMillis: w.grace})
	n.inflight[n.slot(w.group)].Add(1)
	return &part{
		done: func(*part, *wire.Result) {}, log: n.logOf(w.group), group: w.group, op: wire.OpCancelWait,
		nargs: nargs, body: body, session: w.session, since: n.clock.Mono(), counted: true,
	}
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
	for _, ps := range c.calls {
		parts = append(parts, ps...)
	}
	clear(c.calls)
	return parts
}

// any says that policy changes are under way.
func (c *changeCalls) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}
