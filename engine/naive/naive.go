package naive

import (
	"math"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Model is a group as sections 4 to 12 of contract.md tell it, kept in lists. Every
// question is answered by looking at all of them, in the words of the tables, so
// that it can be read beside the contract. It knows nothing of trees, cursors,
// marks or rows.
//
// Whatever the contract leaves open is done as engine does it, and says so.
type Model struct {
	cfg      engine.Config
	now      int64
	wall     int64
	counter  int64
	arrivals int

	holds    []nHold
	leases   []nLease
	waiters  []nWaiter // in order of arrival
	policies []nPolicy
	fences   []nFence
	folds    []nFold
	edges    []nEdge
	kept     []nKept
	version  uint64    // of routes that the group knows of
	frozen   []nFrozen // roots that are being moved: nothing gets in
	attempt  uint64    // the last that a step of a policy change came of

	// What the step in hand says beside its result.
	events  []engine.Event
	answers []engine.Answer
	// Of a request that yields to a waiter with several paths in its way the
	// contract does not say which is named: any of these.
	paths []string
	// Tokens of the grants that engine made in this step and the model has not yet
	// come to (renewed).
	told []int64
	// answered is the token in the answer of a step.
	answered int64
}

type nHold struct {
	owner, ns, path string
	mode            wire.Mode
	alg             wire.Algorithm
	permits         uint32
	since           int64
	meta            string
	by              []engine.Caller // the requests that rely on it: that took it, or named it since
}

// nLease is there exactly while its owner holds something in the namespace.
type nLease struct {
	owner, ns        string
	deadline, revoke int64
	pledges          map[engine.Session]nPledge // of those that have not tied it anew
	bind             *nBind
	also             []*nBind // of other sessions whose connections stand
	spent            uint64   // one above the connection for whose end it was shrunk
}

// nPledge is the latest end of a grace of a session. In that time, whatever it does to keep the lease ties it anew,
// on a connection from over on, if it had tied it before.
type nPledge struct {
	until int64
	over  uint64 // 0: it had not
	grace int64
}

type nBind struct {
	session engine.Session
	epoch   uint64
	grace   int64
	given   bool // up: it ties nothing, but its grace counts
}

type nWaiter struct {
	seq       int
	owner, ns string
	alg       wire.Algorithm
	locks     []wire.LockRequest
	releases  []wire.ReleaseRequest
	token     int64 // what it will hold
	own       bool  // token is the caller's own
	open      bool
	caller    engine.Caller
	of        engine.Session // that queued it
	req       wire.Request   // that came first
	epoch     uint64         // connection of the caller's session
	adrift    bool           // that connection is gone; of a polled place: the one it is tied to
	ttl       uint64
	deadline  int64
	since     int64
	bind      *nBind
	meta      string
}

type nPolicy struct {
	ns  string
	alg wire.Algorithm
}

type nFence struct {
	ns, path string
	token    int64
}

// nFold is a token up to which fences are folded: those of a namespace, or of any when ns is "",
// at and below a root, a handler or everywhere when that is "". A namespace that was taken over begins
// with one.
type nFold struct {
	ns, root string
	token    int64
}

type nEdge struct {
	owner, blocker, path string
	reason               wire.Reason
	deadline             int64
	of                   engine.Session // that set it last
}

// nAsk is a request as it is judged.
type nAsk struct {
	owner, ns string
	alg       wire.Algorithm
	locks     []wire.LockRequest
	token     int64 // the caller's own, 0 for none
	seq       int   // it yields to waiters that came before
	by        engine.Caller
}

// nobody is in the place of the request whose answer came along with a subtree: what that took is gone.
var nobody = engine.Caller{ID: math.MaxUint64}

// asks names a request, nobody for one without an id.
func asks(c engine.Caller) engine.Caller {
	if c.ID == 0 {
		return engine.Caller{}
	}
	return c
}

// rely notes that a request named a hold of its owner. One without an id cannot be taken back, and
// of more than 16 none can.
func (h *nHold) rely(by engine.Caller) {
	switch {
	case slices.Contains(h.by, by) || len(h.by) == 0:
	case by.ID == 0 || len(h.by) == 16:
		h.by = nil
	default:
		h.by = append(slices.Clone(h.by), by)
	}
}

// handOn puts a request in another one's place.
func (h *nHold) handOn(by, to engine.Caller) {
	if !slices.Contains(h.by, by) {
		return
	}
	h.by = slices.DeleteFunc(slices.Clone(h.by), func(c engine.Caller) bool { return c == by || c == to })
	if h.by = append(h.by, to); to.ID == 0 {
		h.by = nil
	}
}

// by is the list of one request, none for one without an id.
func by(c engine.Caller) []engine.Caller {
	if c.ID == 0 {
		return nil
	}
	return []engine.Caller{c}
}

// nVerdict is what stands in a request's way.
type nVerdict struct {
	status  wire.Status
	reason  wire.Reason
	path    string
	owner   string
	current int64
	paths   []string
}

func (v *nVerdict) result() wire.Result {
	return wire.Result{Status: v.status, Reason: v.reason, Path: v.path, Owner: v.owner, Current: v.current}
}

// above says that a is an ancestor of b.
func above(a, b string) bool {
	return a != b && strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

func (m *Model) algorithm(ns string) (alg wire.Algorithm, chosen bool) {
	for _, p := range m.policies {
		if p.ns == ns {
			return p.alg, true
		}
	}
	return m.cfg.Algorithm, false
}

// own is what the writes on a path left behind, whatever was folded since.
func (m *Model) own(ns, path string) (int64, bool) {
	for _, f := range m.fences {
		if f.ns == ns && f.path == path {
			return f.token, true
		}
	}
	return 0, false
}

// bar is the fence that who does not hold a path finds: its own, or that of a fold.
func (m *Model) bar(ns, path string) (int64, bool) {
	token, ok := m.own(ns, path)
	for _, f := range m.folds {
		if f.token > token && f.of(ns) && f.holds(path) {
			token, ok = f.token, true
		}
	}
	return token, ok
}

// fence is what anybody is told of a path: while it is held, its holder's.
func (m *Model) fence(ns, path string) (int64, bool) {
	for _, h := range m.holds {
		if h.ns == ns && h.path == path && h.mode == wire.ModeWrite && h.alg != wire.Semaphore && m.live(h.owner, ns) {
			return m.own(ns, path)
		}
	}
	return m.bar(ns, path)
}

// fold is a command that folds fences.
func (m *Model) fold(cmd *engine.Command) (res wire.Result) {
	if cmd.Req.Token > m.counter {
		res.Code = wire.InvalidArgument
		return res
	}
	m.folds = append(m.folds, nFold{cmd.NS, cmd.Req.Namespace, cmd.Req.Token})
	return res
}

// of says that the fold's paths may be in a namespace.
func (f *nFold) of(ns string) bool { return f.ns == "" || f.ns == ns }

// holds says that a path is one of the fold's.
func (f *nFold) holds(path string) bool {
	switch {
	case f.root == "":
		return true
	case !strings.Contains(f.root, ":"):
		return wire.PathHandler(path) == f.root
	case strings.HasSuffix(f.root, ":/"):
		return strings.HasPrefix(path, f.root)
	}
	return path == f.root || above(f.root, path)
}

// top is the highest path of the fold's.
func (f *nFold) top() string {
	if f.root != "" && !strings.Contains(f.root, ":") {
		return f.root + ":/"
	}
	return f.root
}

// setFence raises a path's fence.
func (m *Model) setFence(ns, path string, token int64) {
	for i := range m.fences {
		if f := &m.fences[i]; f.ns == ns && f.path == path {
			f.token = max(f.token, token)
			return
		}
	}
	m.fences = append(m.fences, nFence{ns, path, token})
}

func (m *Model) lease(owner, ns string) *nLease {
	for i := range m.leases {
		if l := &m.leases[i]; l.owner == owner && l.ns == ns {
			return l
		}
	}
	return nil
}

// live says that the owner has a lease there whose time is not over.
func (m *Model) live(owner, ns string) bool {
	l := m.lease(owner, ns)
	return l != nil && l.deadline > m.now
}

// hold is the owner's own hold on a path.
func (m *Model) hold(owner, ns, path string, mode wire.Mode) *nHold {
	for i := range m.holds {
		if h := &m.holds[i]; h.owner == owner && h.ns == ns && h.path == path && h.mode == mode {
			return h
		}
	}
	return nil
}

// others are the live holds of other owners in the namespace, by path and owner.
func (m *Model) others(a *nAsk) (hs []nHold) {
	for _, h := range m.holds {
		if h.ns == a.ns && h.owner != a.owner && m.live(h.owner, h.ns) {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(hs, func(x, y nHold) int {
		return strings.Compare(x.path+"\x00"+x.owner, y.path+"\x00"+y.owner)
	})
	return hs
}

// capacity is how many may hold a semaphore's path, 0 while it has neither a
// holder nor a waiter.
func (m *Model) capacity(ns, path string) uint32 {
	for _, h := range m.holds {
		if h.ns == ns && h.path == path {
			return h.permits
		}
	}
	for _, w := range m.waiters {
		for _, l := range w.locks {
			if w.ns == ns && l.State == wire.StateNew && l.Path == path {
				return l.Permits
			}
		}
	}
	return 0
}

// refused finds what no waiting can mend: section 5, rows 1, 3 and 9.
func (m *Model) refused(a *nAsk) (v nVerdict, bad bool) {
	for _, l := range a.locks {
		if l.State == wire.StateHeld {
			continue
		}
		v = nVerdict{status: wire.StatusConflict, path: l.Path}
		switch {
		case l.Mode == wire.ModeRead:
			if !a.alg.AllowsReads() {
				v.reason = wire.ReasonReadLocksDisabled
				return v, true
			}
		case a.alg == wire.Semaphore:
			capacity := m.capacity(a.ns, l.Path)
			if l.Permits == 0 || capacity != 0 && l.Permits != capacity {
				v.reason, v.owner = wire.ReasonInvalidPermits, decimal(capacity)
				return v, true
			}
		case a.token > 0:
			fence, ok := m.bar(a.ns, l.Path)
			holds := m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) != nil
			if holds {
				fence, ok = m.own(a.ns, l.Path)
			}
			if ok && (a.token < fence || a.token == fence && !holds) {
				v.reason, v.current = wire.ReasonStaleFencingToken, fence
				return v, true
			}
		}
	}
	return v, false
}

// lost finds what the request says it holds and does not: section 5, HELD.
func (m *Model) lost(a *nAsk) (v nVerdict, bad bool) {
	for _, l := range a.locks {
		if l.State == wire.StateNew {
			continue
		}
		if !m.live(a.owner, a.ns) {
			return nVerdict{status: wire.StatusLost, reason: wire.ReasonMissingAlive}, true
		}
		v = nVerdict{status: wire.StatusLost, path: l.Path}
		h := m.hold(a.owner, a.ns, l.Path, l.Mode)
		if h == nil {
			v.reason = missing(l.Mode, a.alg)
			return v, true
		}
		fence, _ := m.fence(a.ns, l.Path)
		if h.mode == wire.ModeWrite && h.alg != wire.Semaphore && a.token > 0 && fence > a.token {
			v.status, v.reason, v.current = wire.StatusConflict, wire.ReasonStaleFencingToken, fence
			return v, true
		}
	}
	return v, false
}

// missing is the reason that says so of a hold.
func missing(mode wire.Mode, alg wire.Algorithm) wire.Reason {
	switch {
	case mode == wire.ModeRead:
		return wire.ReasonMissingRead
	case alg == wire.Semaphore:
		return wire.ReasonMissingSemaphore
	}
	return wire.ReasonMissingWrite
}

// waits finds whom the request has to wait for: first, for all its paths, the
// earlier waiters it yields to (section 7), then the holds of others (section 5).
func (m *Model) waits(a *nAsk) (v nVerdict, must bool) {
	for _, l := range a.locks {
		if l.State == wire.StateHeld || m.exempt(a, l) {
			continue
		}
		for _, w := range m.waiters {
			if w.seq >= a.seq || w.owner == a.owner || w.ns != a.ns {
				continue
			}
			var paths []string
			for _, wl := range w.locks {
				if wl.State == wire.StateNew && overlaps(a.alg, l, wl) {
					paths = append(paths, wl.Path)
				}
			}
			if len(paths) > 0 {
				if m.waitsFor(w, a, l) {
					break
				}
				v = nVerdict{status: wire.StatusQueued, reason: wire.ReasonQueued, path: paths[0], owner: w.owner}
				v.paths = paths
				return v, true
			}
		}
	}
	for _, l := range a.locks {
		if l.State == wire.StateHeld {
			continue
		}
		if v, blocked := m.blocked(a, l); blocked {
			return v, true
		}
	}
	return v, false
}

// overlaps is request against request: the same path unless both read, or above
// one another if the upper one is a recursive write.
func overlaps(alg wire.Algorithm, x, y wire.LockRequest) bool {
	switch {
	case x.Path == y.Path:
		return x.Mode == wire.ModeWrite || y.Mode == wire.ModeWrite
	case above(x.Path, y.Path):
		return alg.Recursive() && x.Mode == wire.ModeWrite
	case above(y.Path, x.Path):
		return alg.Recursive() && y.Mode == wire.ModeWrite
	}
	return false
}

// waitsFor says that a waiter waits for what the owner of a holds below l, which it wants
// to write: to widen that it yields neither to it nor to those behind it.
func (m *Model) waitsFor(w nWaiter, a *nAsk, l wire.LockRequest) bool {
	return l.Mode == wire.ModeWrite && a.alg.Recursive() && slices.ContainsFunc(m.holds, func(h nHold) bool {
		held := wire.LockRequest{Path: h.path, Mode: h.mode}
		return h.owner == a.owner && h.ns == a.ns && above(l.Path, h.path) &&
			slices.ContainsFunc(wishes(w.locks), func(wl wire.LockRequest) bool { return overlaps(a.alg, held, wl) })
	})
}

// exempt says that the request need not yield for l: its owner covers the path,
// or is its only reader and wants to write.
func (m *Model) exempt(a *nAsk, l wire.LockRequest) bool {
	if m.hold(a.owner, a.ns, l.Path, l.Mode) != nil || m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) != nil {
		return true
	}
	readers, mine := 0, false
	for _, h := range m.holds {
		if h.ns != a.ns {
			continue
		}
		if h.owner == a.owner && h.mode == wire.ModeWrite && h.alg.Recursive() && above(h.path, l.Path) {
			return true
		}
		if h.path == l.Path && h.mode == wire.ModeRead && m.live(h.owner, h.ns) {
			readers++
			mine = mine || h.owner == a.owner
		}
	}
	return l.Mode == wire.ModeWrite && mine && readers == 1
}

// blocked is section 5, rows 2 and 4 to 8.
func (m *Model) blocked(a *nAsk, l wire.LockRequest) (v nVerdict, blocked bool) {
	found := func(reason wire.Reason, h nHold) (nVerdict, bool) {
		return nVerdict{status: wire.StatusQueued, reason: reason, path: h.path, owner: h.owner}, true
	}
	others := m.others(a)
	for i := len(others) - 1; i >= 0; i-- { // the nearest ancestor is the longest
		if h := others[i]; h.mode == wire.ModeWrite && h.alg.Recursive() && above(h.path, l.Path) {
			return found(wire.ReasonAncestorLocked, h)
		}
	}
	if a.alg == wire.Semaphore {
		if m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) != nil {
			return v, false
		}
		holders := slices.DeleteFunc(others, func(h nHold) bool { return h.path != l.Path })
		if len(holders) >= int(l.Permits) {
			return found(wire.ReasonSemaphoreFull, holders[0])
		}
		return v, false
	}
	row := func(reason wire.Reason, mode wire.Mode, at func(path string) bool) bool {
		for _, h := range others {
			if !blocked && h.mode == mode && at(h.path) {
				v, blocked = found(reason, h)
			}
		}
		return blocked
	}
	here := func(path string) bool { return path == l.Path }
	below := func(path string) bool { return above(l.Path, path) }
	if row(wire.ReasonWriteLocked, wire.ModeWrite, here) || l.Mode == wire.ModeRead {
		return v, blocked
	}
	if row(wire.ReasonReadLocked, wire.ModeRead, here) || !a.alg.Recursive() {
		return v, blocked
	}
	if !row(wire.ReasonDescendantWriteLocked, wire.ModeWrite, below) {
		row(wire.ReasonDescendantReadLocked, wire.ModeRead, below)
	}
	return v, blocked
}
