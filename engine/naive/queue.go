package naive

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Acquire and the wait queue: sections 5 to 7.

// acquire answers a request that just came, and the arrival number of the waiter
// it left, 0 for none.
func (m *Model) acquire(cmd *engine.Command) (res wire.Result, seq int) {
	req := cmd.Req
	alg, chosen := m.algorithm(cmd.NS)
	for _, l := range req.Locks {
		if l.State == wire.StateNew && (cmd.Short || !chosen && segments(cmd.NS) < m.cfg.Segments) {
			return wire.Result{Code: wire.InvalidArgument}, 0
		}
	}
	a := nAsk{owner: req.Owner, ns: cmd.NS, alg: alg, locks: req.Locks, token: max(req.Token, 0), seq: math.MaxInt,
		by: asks(cmd.Caller)}
	if a.fencedWrite() && a.token > max(wire.FreeToken, m.counter+wire.TokenStride) {
		return wire.Result{Code: wire.InvalidArgument}, 0
	}
	entry := m.entry(a.owner, a.ns)
	if entry != nil && (req.Flags&wire.FlagWait != 0 || !sameLocks(entry.locks, a.locks)) {
		entry = nil // not what is asked for
	}
	if entry != nil {
		a.seq = entry.seq
	}
	if v, bad := m.refused(&a); bad {
		return v.result(), 0
	}
	if v, bad := m.lost(&a); bad {
		return v.result(), 0
	}
	v, must := m.waits(&a)
	m.paths = v.paths
	switch {
	case must && req.Flags&wire.FlagNoQueue != 0:
		v.status = wire.StatusConflict
		return v.result(), 0
	case must:
		return m.enqueue(cmd, &a, entry, v)
	}
	minted := int64(0)
	if entry != nil && !entry.own && m.answered == entry.token { // what it was promised; as in renewed
		minted = entry.token
	}
	token := m.take(&a, minted, req.TTLMillis, req.Releases, string(cmd.Meta), m.lease(a.owner, a.ns).kept(cmd, m.now))
	m.leavePoll(a.owner, a.ns)
	return wire.Result{Token: token, Namespace: cmd.NS}, 0
}

// leavePoll ends the owner's polled entry, as every OK acquire of it does.
func (m *Model) leavePoll(owner, ns string) {
	if w := m.entry(owner, ns); w != nil {
		m.removeWaiter(w.seq)
	}
}

func bindOf(cmd *engine.Command) *nBind {
	if !cmd.Bound {
		return nil
	}
	return &nBind{session: cmd.Caller.Session, epoch: cmd.Epoch, grace: cmd.Grace}
}

// entry is the owner's polled entry in a namespace.
func (m *Model) entry(owner, ns string) *nWaiter {
	for i := range m.waiters {
		if w := &m.waiters[i]; w.owner == owner && w.ns == ns && !w.open {
			return w
		}
	}
	return nil
}

// sameLocks says that two requests name the same paths and modes, in any order.
// The contract does not say whether a path that is NEW in one and HELD in the
// other is the same; to engine it is not.
func sameLocks(a, b []wire.LockRequest) bool {
	return slices.Equal(lockNames(a), lockNames(b))
}

func lockNames(ls []wire.LockRequest) (names []string) {
	for _, l := range ls {
		names = append(names, l.Path+" "+l.Mode.String()+" "+l.State.String())
	}
	slices.Sort(names)
	return names
}

// wishes are the paths a request waits for, each once in each mode.
func wishes(locks []wire.LockRequest) (ls []wire.LockRequest) {
	for _, l := range locks {
		known := slices.ContainsFunc(ls, func(o wire.LockRequest) bool { return o.Path == l.Path && o.Mode == l.Mode })
		if l.State == wire.StateNew && !known {
			ls = append(ls, l)
		}
	}
	return ls
}

// fencedWrite says that the request has one.
func (a *nAsk) fencedWrite() bool {
	return a.alg != wire.Semaphore &&
		slices.ContainsFunc(a.locks, func(l wire.LockRequest) bool { return l.Mode == wire.ModeWrite })
}

// heldToken is the token that a request without one keeps: that of its writes, if
// the owner holds them all under one. For writes it only says that it holds, under
// several, the contract names none; engine answers the highest.
func (m *Model) heldToken(a *nAsk) (token int64, keeps bool) {
	one, asks := true, false
	for _, l := range a.locks {
		if l.Mode == wire.ModeRead {
			continue
		}
		if m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) == nil {
			return 0, false
		}
		fence, _ := m.fence(a.ns, l.Path)
		one = one && (token == 0 || fence == token)
		token = max(token, fence)
		asks = asks || l.State == wire.StateNew
	}
	return token, one || !asks
}

func (m *Model) mint() int64 {
	m.counter++
	return m.counter
}

// stale says that a token minted for a waiter must not be used any more: one at
// least as high went to a path of it, or above or below one where writes are
// recursive (not so for what it says it holds). On a path that its owner holds
// under the very token it may stay.
func (m *Model) stale(a *nAsk, minted int64) bool {
	for _, l := range wants(a.locks, wire.ModeWrite) {
		if bar, _ := m.bar(a.ns, l.Path); bar >= minted && m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) == nil {
			return true
		}
		for _, f := range m.folds {
			below := a.alg.Recursive() && l.State == wire.StateNew && f.root != "" && above(l.Path, f.top())
			if f.token >= minted && f.of(a.ns) && below {
				return true
			}
		}
		for _, f := range m.fences {
			if f.ns != a.ns || f.token < minted {
				continue
			}
			same := f.token == minted && m.hold(a.owner, a.ns, l.Path, wire.ModeWrite) != nil
			if f.path == l.Path && !same {
				return true
			}
			if a.alg.Recursive() && l.State == wire.StateNew && (above(f.path, l.Path) || above(l.Path, f.path)) {
				return true
			}
		}
	}
	return false
}

// wants are the locks of a request in one mode.
func wants(locks []wire.LockRequest, mode wire.Mode) []wire.LockRequest {
	return slices.DeleteFunc(slices.Clone(locks), func(l wire.LockRequest) bool { return l.Mode != mode })
}

// take gives a all it asks for, does its inline releases and sets its lease.
// minted is the token it was promised when it was queued.
func (m *Model) take(a *nAsk, minted int64, ttl uint64, releases []wire.ReleaseRequest, meta string,
	bind *nBind) int64 {
	var token int64
	keeps := true
	switch held, all := m.heldToken(a); {
	case !a.fencedWrite():
		token = a.token
	case a.token > 0:
		token, keeps = a.token, false
		m.counter = max(m.counter, token)
	case all:
		token = held
	case minted > 0 && !m.stale(a, minted) && !m.renewed(minted):
		token, keeps = minted, false
	default:
		token, keeps = m.mint(), false
	}
	for _, l := range a.locks {
		h := m.hold(a.owner, a.ns, l.Path, l.Mode)
		if h != nil {
			h.rely(a.by)
		}
		switch {
		case h == nil:
			m.holds = append(m.holds, nHold{a.owner, a.ns, l.Path, l.Mode, a.alg, l.Permits, m.wall, meta, by(a.by)})
		case l.State == wire.StateNew && meta != "":
			h.meta = meta
		}
		// One token for the whole request: also for what it says it holds already.
		if l.Mode == wire.ModeWrite && a.alg != wire.Semaphore && !keeps {
			m.setFence(a.ns, l.Path, token)
		}
	}
	for _, r := range releases {
		m.drop(a.owner, a.ns, r.Path, r.Mode)
	}
	if !m.holdsAny(a.owner, a.ns) {
		m.lapse(a.owner, a.ns)
		return token
	}
	if m.lease(a.owner, a.ns) == nil {
		m.leases = append(m.leases, nLease{owner: a.owner, ns: a.ns})
	}
	l := m.lease(a.owner, a.ns)
	l.deadline = max(l.deadline, m.after(int64(ttl)))
	l.tie(bind)
	return token
}

// enqueue gives a request a place in the queue, or confirms the one it has.
func (m *Model) enqueue(cmd *engine.Command, a *nAsk, entry *nWaiter, v nVerdict) (res wire.Result, seq int) {
	req := cmd.Req
	open := req.Flags&wire.FlagWait != 0
	if entry == nil {
		old := m.entry(a.owner, a.ns)
		if open {
			old = nil
		}
		news := 0
		for _, l := range a.locks {
			if l.State == wire.StateNew {
				news++
			}
		}
		if m.full(a.owner, cmd.Caller.Session, counted(news, a.locks, req.Releases), old) {
			return wire.Result{Code: wire.ResourceExhausted}, 0
		}
		if old != nil {
			m.removeWaiter(old.seq)
		}
		m.arrivals++
		w := nWaiter{
			seq: m.arrivals, owner: a.owner, ns: a.ns, alg: a.alg, locks: slices.Clone(a.locks),
			token: a.token, own: a.token > 0, open: open, caller: cmd.Caller, of: cmd.Caller.Session, req: *req,
			epoch: cmd.Epoch, since: m.wall,
		}
		if !w.own && a.fencedWrite() {
			held, keeps := m.heldToken(a)
			if w.token = held; !keeps {
				w.token = m.mint()
			}
		}
		m.waiters = append(m.waiters, w)
		entry = &m.waiters[len(m.waiters)-1]
	} else {
		now := counted(len(wishes(entry.locks)), a.locks, req.Releases)
		if now > entry.counted() && m.full(a.owner, entry.of, now, entry) {
			return wire.Result{Code: wire.ResourceExhausted}, 0
		}
	}
	if a.token > entry.token {
		entry.token, entry.own = a.token, true
	}
	entry.ttl, entry.releases = req.TTLMillis, slices.Clone(req.Releases)
	entry.bind, entry.meta = bindOf(cmd), string(cmd.Meta)
	if !open {
		entry.adrift = false
	}
	entry.deadline = m.after(queueMillis(req))
	res = v.result()
	res.Token, res.Namespace, res.Position = entry.token, a.ns, m.position(entry)
	return res, entry.seq
}

func queueMillis(req *wire.Request) int64 {
	if req.QueueTTLMillis == 0 {
		return wire.DefaultQueueTTLMillis
	}
	return int64(req.QueueTTLMillis)
}

// full says that the queue has no room for so many more paths of an owner and a session, which take
// the place of old.
func (m *Model) full(owner string, of engine.Session, more int, old *nWaiter) bool {
	all, mine, its := 0, 0, 0
	for _, w := range m.waiters {
		if old != nil && w.seq == old.seq {
			continue
		}
		n := w.counted()
		all += n
		if w.owner == owner {
			mine += n
		}
		if w.of == of {
			its += n
		}
	}
	tooMany := of != engine.Session{} && its+more > max(m.cfg.MaxQueued/4, 1)
	return all+more > m.cfg.MaxQueued || mine+more > m.cfg.MaxQueued/4 || tooMany
}

// counted is how many paths a request counts for: those that it waits for, and at least one for
// every 4096 bytes of all it names, each with 64 more and at most 4096. The contract counts
// paths; that others are kept too is engine's.
func counted(paths int, locks []wire.LockRequest, releases []wire.ReleaseRequest) int {
	bytes := 0
	for _, l := range locks {
		bytes += min(len(l.Path)+64, 4096)
	}
	for _, r := range releases {
		bytes += min(len(r.Path)+64, 4096)
	}
	return max(paths, bytes/4096)
}

func (w *nWaiter) counted() int { return counted(len(wishes(w.locks)), w.locks, w.releases) }

// position is not in the contract. To engine it is the place in the queue of that
// one of its paths where the waiter is furthest back, from 1; waiters above and
// below do not count.
func (m *Model) position(w *nWaiter) uint64 {
	most := 0
	for _, l := range wishes(w.locks) {
		ahead := 0
		for _, o := range m.waiters {
			for _, ol := range wishes(o.locks) {
				if o.seq < w.seq && o.ns == w.ns && ol.Path == l.Path {
					ahead++
				}
			}
		}
		most = max(most, ahead)
	}
	return uint64(most) + 1
}

// removeWaiter takes a waiter out and answers what it was.
func (m *Model) removeWaiter(seq int) (w nWaiter) {
	m.waiters = slices.DeleteFunc(m.waiters, func(o nWaiter) bool {
		if o.seq == seq {
			w = o
		}
		return o.seq == seq
	})
	return w
}

// end takes a waiter out and answers its call, if one is open.
func (m *Model) end(seq int, res wire.Result) {
	if w := m.removeWaiter(seq); w.open {
		m.answers = append(m.answers, engine.Answer{Caller: w.caller, Result: res})
	}
}

// settle grants whatever can be granted, in order of arrival.
func (m *Model) settle() {
	for m.settleOne() {
	}
}

// settleOne finds the first waiter that nothing stands in the way of. It is
// granted, unless it can not be any more: its own token is stale, or what it says
// it holds is gone.
func (m *Model) settleOne() bool {
	for _, w := range m.waiters {
		if slices.ContainsFunc(wishes(w.locks), func(l wire.LockRequest) bool {
			return m.isFrozen(w.ns, l.Path) || m.overFrozen(w.alg, l)
		}) {
			continue
		}
		a := nAsk{owner: w.owner, ns: w.ns, alg: w.alg, locks: w.locks, seq: w.seq}
		if w.open {
			a.by = w.caller
		}
		if w.own {
			a.token = w.token
		}
		if _, must := m.waits(&a); must {
			continue
		}
		if v, bad := m.refused(&a); bad {
			m.end(w.seq, v.result())
			return true
		}
		if v, bad := m.lost(&a); bad {
			m.end(w.seq, v.result())
			return true
		}
		m.removeWaiter(w.seq)
		minted := w.token
		if w.own {
			minted = 0
		}
		ttl, bind := w.ttl, w.bind
		if bind == nil && w.open && !w.adrift {
			bind = m.lease(w.owner, w.ns).again(w.caller, w.epoch, m.now)
		}
		spent := uint64(0)
		if w.adrift && bind != nil { // as if it were cut off now; a lease that is there is not
			ttl = min(ttl, uint64(bind.grace))
			if bind.given || m.lease(w.owner, w.ns) != nil {
				bind = nil
			} else {
				spent = bind.epoch + 1
			}
		}
		token := m.take(&a, minted, ttl, w.releases, w.meta, bind)
		if l := m.lease(w.owner, w.ns); l != nil && l.bind != nil && l.bind == bind && !w.adrift {
			l.spent = 0 // of an earlier lease of the connection
		}
		if l := m.lease(w.owner, w.ns); l != nil && w.adrift && w.bind != nil {
			if spent > 0 {
				l.spent = spent
			}
			p := nPledge{until: m.after(w.bind.grace)}
			if spent > 0 {
				p.over, p.grace = spent, w.bind.grace
			}
			l.pledge(w.bind.session, m.now, p)
		}
		m.granted(&w, token, a.by)
		if w.open {
			m.leavePoll(w.owner, w.ns)
		}
		m.runOut(w.owner, w.ns)
		return true
	}
	return false
}

// granted tells that w was granted.
func (m *Model) granted(w *nWaiter, token int64, by engine.Caller) {
	if len(m.told) > 0 {
		m.told = m.told[1:]
	}
	for i := range m.kept {
		if k := &m.kept[i]; k.seq == w.seq {
			k.status, k.token, k.seq, k.by = wire.StatusOK, token, 0, by
		}
	}
	first := wishes(w.locks)[0].Path
	m.events = append(m.events, engine.Event{
		Kind: wire.EventGrant, Owner: w.owner, Path: first, Namespace: w.ns, Token: token,
	})
	if w.open {
		m.answers = append(m.answers, engine.Answer{Caller: w.caller,
			Result: wire.Result{Token: token, Namespace: w.ns}})
	}
}

// renewed says that engine gave a waiter another token than it was promised. It
// must when that is stale, and may when it is not: it looks less closely than the
// model.
func (m *Model) renewed(minted int64) bool {
	return len(m.told) > 0 && m.told[0] != minted
}

func decimal(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// segments is how many a namespace's root has below its handler.
func segments(ns string) int {
	_, rest, _ := strings.Cut(ns, ":")
	return strings.Count(strings.TrimSuffix(rest, "/"), "/")
}
