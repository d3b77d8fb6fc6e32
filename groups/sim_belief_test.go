package groups

import (
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// What clients of the simulation know of what they hold, by what they were answered.

// holding is an owner on a path, in a mode.
type holding struct {
	owner, path string
	mode        wire.Mode
}

// belief is what a client knows of a holding.
type belief struct {
	open   map[uint64]bool // requests under way that touch it
	issued uint64          // the last request that touches it
	dirty  uint64          // what is known comes from requests after this one
	last   uint64          // the request that it is known from
	held   bool
	token  int64
	until  time.Duration // the lease lasts at least as long
	queued uint64        // a request that took a polled place, 0: none
	placed time.Duration // when it was told so
	keyed  uint64        // the last request with a key that touches it
	ns     string
	conn   *simConn // the lease is tied to it

	undoing uint64 // a wait that may be granted at any time, until it is taken back; 0: none

	// the logs that the path lay in when the request that gave it back was asked first, and when it was answered
	let [2]uint64
}

const never = 1 << 63

// certain says that what is known is so.
func (b *belief) certain() bool { return len(b.open) == 0 && b.last > b.dirty && b.queued == 0 }

// lasts says that what is known to be held does not end with a connection: it is tied to none,
// or to one that stands.
func (c *simClient) lasts(b *belief) bool {
	return b.conn == nil || b.conn == c.conn && !b.conn.gone && !b.conn.closed
}

// belief is what is known of a holding of one of the client's owners.
func (c *simClient) belief(h holding) *belief {
	b := c.known[h]
	if b == nil {
		b = &belief{open: make(map[uint64]bool)}
		c.known[h] = b
	}
	return b
}

// touches lists the holdings that a request may change.
func (c *simClient) touches(req *wire.Request) map[holding]bool {
	out := make(map[holding]bool)
	for _, l := range req.Locks {
		out[holding{req.Owner, l.Path, l.Mode}] = true
	}
	for _, r := range req.Releases {
		out[holding{req.Owner, r.Path, r.Mode}] = true
	}
	switch req.Op {
	case wire.OpReleaseAll, wire.OpRenew, wire.OpForceRelease:
		for h := range c.known {
			if h.owner == req.Owner && inDomains(req.Domains, h.path) {
				out[h] = true
			}
		}
	}
	return out
}

// touched is touches, of a call: what its key is known to be done for changes nothing.
func (c *simClient) touched(call *simCall) map[holding]bool {
	if call.done {
		return nil
	}
	return c.touches(call.req)
}

// logOf is the log that a path lies in by now.
func (w *world) logOf(path string) uint64 {
	n := w.nodes[len(w.nodes)-1].node
	return n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
}

// stepping says that a request about an owner is carried out in steps, which may take
// their turn before or after any other.
func (c *simClient) stepping(owner string) bool {
	for _, call := range c.open {
		if call.stepped() && call.req.Owner == owner {
			return true
		}
	}
	return false
}

// inDomains says that a path may be meant by the domains of a request: each is the namespace
// that it lies in itself, which may reach above it, up to the first segment.
func inDomains(domains []string, path string) bool {
	return len(domains) == 0 || slices.ContainsFunc(domains, func(d string) bool {
		if parts := strings.SplitN(d, "/", 3); len(parts) > 2 {
			d = parts[0] + "/" + parts[1]
		}
		return strings.HasPrefix(path, d)
	})
}

// stepped says that a request is carried out in steps, beside those of its session that
// are not answered.
func stepped(op wire.Op) bool {
	return op == wire.OpReleaseAll || op == wire.OpRenew || op == wire.OpForceRelease
}

// stepped is that of the request, or of a release that spans namespaces.
func (call *simCall) stepped() bool { return call.spans || stepped(call.req.Op) }

// polls says that the request may take a place that it is to ask for again.
func (call *simCall) polls() bool {
	return call.req.Op == wire.OpAcquire && call.req.Flags&wire.FlagWait == 0 && call.req.QueueTTLMillis > 0
}

// overtaken says that the client has asked for a release since that gives back something of what an acquire takes.
func (c *simClient) overtaken(call *simCall) bool {
	for h := range c.touched(call) {
		if c.belief(h).issued > call.id {
			return true
		}
	}
	return false
}

// uncertain says that an answer leaves open whether the request was carried out.
func uncertain(res *wire.Result) bool {
	return res.Code == wire.DeadlineExceeded || res.Code == wire.Aborted || res.Code == wire.Cancelled ||
		res.Code == wire.Forgotten
}

// tookNothing says that an answer is to an acquire that got nothing, nor ever will, as its wait is over, or as it was
// asked once and not taken: what was known before it is known still.
func (call *simCall) tookNothing(res *wire.Result) bool {
	req := call.req
	switch {
	case req.Op != wire.OpAcquire || req.Key != "":
		return false
	case res.Code == wire.Unavailable:
		return !call.again
	}
	over := res.Code == wire.Cancelled || res.Code == wire.DeadlineExceeded && res.Cause == wire.CauseWaitOver
	return req.Flags&wire.FlagWait != 0 && over
}

// takeBack gives back what a wait may have taken, or may take yet, whose outcome is not known.
func (c *simClient) takeBack(call *simCall, res *wire.Result) {
	req := call.req
	undone := call
	switch {
	case call.undoes != nil:
		undone = call.undoes // it is tried again
	case req.Flags&wire.FlagWait == 0 || req.Key != "":
		return
	case !uncertain(res) && (!call.again || res.Code != wire.Unavailable):
		return
	}
	undo := &wire.Request{Op: wire.OpRelease, Owner: req.Owner, Target: undone.id}
	for _, l := range undone.req.Locks {
		undo.Releases = append(undo.Releases, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
		if b := c.belief(holding{req.Owner, l.Path, l.Mode}); b.dirty != never || b.undoing != 0 {
			b.dirty, b.undoing = never, undone.id
		}
	}
	c.w.after(100*time.Millisecond, func() {
		if !c.dead {
			c.ask(undo, false).undoes = undone
		}
	})
}

// answered takes an answer in.
func (c *simClient) answered(call *simCall, res *wire.Result) {
	w := c.w
	w.count.answers++
	w.note("client %d #%d answered %s", c.index, call.id, answerOf(res))
	req := call.req
	c.edged(call, res)
	touched := c.touched(call)
	for h := range touched {
		b := c.belief(h)
		delete(b.open, call.id)
		if call.tookNothing(res) && b.last == 0 && b.dirty == 0 && len(b.open) == 0 {
			b.last = call.id
		}
		if call.stepped() && b.issued > call.id {
			b.dirty = max(b.dirty, b.issued)
		}
		// a log does not compare their ids
		if call.again && (req.Key != "" && b.issued > call.id || b.keyed > call.id) {
			b.dirty = max(b.dirty, b.issued)
		}
	}
	if res.Code == wire.Cancelled && !call.ended && !c.overtaken(call) && !sharedOwner(req.Owner) {
		w.fail("client %d #%d is answered %s, and nobody has cancelled it", c.index, call.id, answerOf(res))
	}
	if call.tookNothing(res) {
		return
	}
	if uncertain(res) || res.Code != wire.OK && (call.again || stepped(req.Op)) {
		for h := range touched {
			c.belief(h).dirty = max(c.belief(h).dirty, c.last)
			if call.polls() { // it may have a place that no release of the path takes from it
				c.belief(h).queued = call.id
			}
		}
		w.disturb(req, true)
		c.takeBack(call, res)
		return
	}
	ok, sure := res.Code == wire.OK, false // sure: what was known before still is
	call.ok, call.lost = ok && res.Status == wire.StatusOK, ok && res.Status == wire.RenewLost
	if call.ok && call.then != nil {
		call.then(call)
	}
	for _, r := range []*simCall{call, call.follower} {
		if r != nil && r.behind != nil {
			w.check.renewed(w, r)
		}
	}
	know := func(h holding, set func(b *belief)) {
		if b := c.belief(h); call.id > b.last && call.id > b.dirty {
			sure = b.last > b.dirty
			b.last = call.id
			set(b)
			if w.disturbed(h) || c.stepping(h.owner) {
				b.dirty = max(b.dirty, b.issued)
			}
		}
	}
	ttl := time.Duration(req.TTLMillis)*time.Millisecond - replica.MaxStep - 10*time.Millisecond
	switch {
	case req.Op == wire.OpAcquire && ok && res.Status == wire.StatusOK:
		w.check.token(w, call, res)
		for h := range touched {
			// Its turn came after that of later ones; and an earlier release that comes yet takes it back (PROTOCOL 4:
			// what an acquire took at once is left).
			b := c.belief(h)
			if (call.id != b.issued || len(b.open) > 0) &&
				(req.Flags&wire.FlagWait != 0 || call.polls() && call.again) {
				b.dirty = max(b.dirty, b.issued)
			}
			// It was given back in another log than that which its path has come to since: that knows nothing of it
			// (PROTOCOL 3, moves).
			if at := w.logOf(h.path); call.again && call.id < b.last && !b.held && (at != b.let[0] || at != b.let[1]) {
				b.dirty = max(b.dirty, b.issued)
			}
		}
		for _, l := range req.Locks {
			know(holding{req.Owner, l.Path, l.Mode}, func(b *belief) {
				if !b.held || !sure || !c.lasts(b) {
					b.until = 0
				}
				b.held, b.token, b.ns = true, res.Token, res.Namespace
				b.until = max(b.until, call.first+ttl) // its lease may have begun when it was asked first
				if b.conn = nil; call.bound || c.yokes(req.Owner) {
					b.conn = call.conn
				}
				if c.yokes(req.Owner) && !call.yoked {
					b.dirty = max(b.dirty, b.issued)
				}
			})
		}
		for h, b := range c.known { // any grant ends the owner's polled places in the namespace
			if h.owner == req.Owner && b.queued != 0 && b.queued < call.id && b.ns == res.Namespace && !touched[h] {
				b.queued, b.dirty = 0, max(b.dirty, b.issued) // it may have been granted before
			}
		}
		for h := range touched {
			c.belief(h).queued = 0
		}
		for _, r := range req.Releases {
			know(holding{req.Owner, r.Path, r.Mode}, func(b *belief) {
				b.held, b.let = false,
					[2]uint64{call.lay[r.Path], w.logOf(r.Path)}
			})
		}
		w.check.exclusive(w, c, req)
		if req.Key != "" && !sharedOwner(req.Owner) && !w.forgetful() {
			w.check.keyed(w, call, res)
		}
	case req.Op == wire.OpAcquire && ok && res.Status == wire.StatusQueued:
		for h := range touched {
			b := c.belief(h)
			b.queued, b.ns, b.placed = call.id, res.Namespace, w.now
		}
	case req.Op == wire.OpAcquire && ok && res.Status == wire.StatusLost:
		for h := range touched {
			c.belief(h).dirty = max(c.belief(h).dirty, c.last)
		}
	case call.undoes != nil && ok:
		for h := range touched {
			if b := c.belief(h); b.undoing == call.undoes.id {
				b.undoing, b.dirty = 0, b.issued
			}
		}
	case req.Op == wire.OpRelease && ok && !call.done:
		if req.Key != "" {
			c.keys[req.Key] = true
		}
		for _, r := range req.Releases {
			know(holding{req.Owner, r.Path, r.Mode}, func(b *belief) {
				b.held, b.let = false,
					[2]uint64{call.lay[r.Path], w.logOf(r.Path)}
			})
		}
	case req.Op == wire.OpReleaseAll && ok:
		for h := range touched {
			if len(req.Domains) > 0 { // which namespace the path lies in is not known
				b := c.belief(h)
				b.dirty = max(b.dirty, b.issued)
				continue
			}
			know(h, func(b *belief) { b.held = false })
			if b := c.belief(h); b.queued != 0 && b.placed < call.first { // else the order of the two is not promised
				b.queued = 0
			}
		}
	case req.Op == wire.OpRenew && ok && len(req.Domains) > 0: // whose leases it made longer is not known
		for h := range touched {
			b := c.belief(h)
			if call.lost && h.path == req.Domains[0] && b.held && b.certain() && b.last < call.id && w.now < b.until &&
				b.conn == nil {
				w.fail("client %d #%d: renew of %s where %s is answers LOST, which it holds until %v at least", c.index,
					call.id, req.Owner, h.path, b.until)
			}
		}
	case req.Op == wire.OpRenew && ok && res.Status == wire.StatusOK:
		for h := range touched {
			b := c.belief(h)
			if b.held && b.certain() && b.last < call.id && w.now < b.until {
				b.until = call.sent + ttl
			}
		}
	case req.Op == wire.OpRenew && ok:
		for h := range touched {
			b := c.belief(h)
			if b.held && b.certain() && b.last < call.id && w.now < b.until && c.lasts(b) &&
				(b.conn == nil || b.conn == call.conn) {
				w.fail("client %d #%d: renew of %s answers LOST, which holds %s until %v at least", c.index, call.id,
					req.Owner, h.path, b.until)
			}
		}
	case req.Op == wire.OpBind && ok && c.yoke.id == call.id:
		c.yoke.conn = call.conn
	case req.Op == wire.OpForceRelease, req.Op == wire.OpSetPolicy, req.Op == wire.OpDeletePolicy:
		w.disturb(req, false)
	case req.Op == wire.OpInspectPath && ok:
		w.check.read(w, call, res)
	case req.Op == wire.OpIncrToken && ok && req.Key != "":
		call.token = res.Token
	case req.Op == wire.OpIncrToken && ok:
		w.check.incr(w, call, res)
	case req.Op == wire.OpAssertFencing && ok:
		w.check.asserted(w, call, res)
	}
}

// disturbs says that a request may change a holding of another client's.
func disturbs(req *wire.Request, h holding) bool {
	return req.Op == wire.OpForceRelease && h.owner == req.Owner
}

// disturbed says that a request is under way that disturbs a holding.
func (w *world) disturbed(h holding) bool {
	for _, req := range w.lingers {
		if disturbs(req, h) {
			return true
		}
	}
	for _, c := range w.clients {
		for _, call := range c.open {
			if disturbs(call.req, h) {
				return true
			}
		}
	}
	return false
}

// disturb takes note that a request may have changed other owners' locks, or may yet.
func (w *world) disturb(req *wire.Request, yet bool) {
	if yet && req.Op == wire.OpForceRelease {
		w.lingers = append(w.lingers, req)
	}
	for _, c := range w.clients {
		for h, b := range c.known {
			if disturbs(req, h) {
				b.dirty = max(b.dirty, c.last)
				if yet {
					b.dirty = never
				}
			}
		}
	}
}
