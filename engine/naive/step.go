package naive

import (
	"reflect"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// One step, and all but acquire: sections 4 and 8 to 11.

// nKept is the answer to a keyed request.
type nKept struct {
	scope    string
	req      wire.Request
	status   wire.Status
	token    int64
	seq      int // of the waiter that a QUEUED answer told of
	deadline int64
	by       engine.Caller  // who may take back what it took
	of       engine.Session // that asked for it first
	hash     uint64         // in place of req, of what was claimed or came along with a move
	plan     string         // of a claim
	attempt  uint64         // of a claim or of a part of one, the last there was of it
	ends     int64          // of a claim: until when it is the latest attempt's
	turn     int64          // of a claim: for how long it is an attempt's, at the least
	version  uint64         // of a claim: of the routes of the latest attempt
	owned    engine.Caller  // of a claim: who makes the latest attempt
}

// begin starts a step; told are the tokens of engine's grants in it.
func (m *Model) begin(c engine.Clock, told []int64) {
	m.now, m.wall, m.told = max(m.now, c.Now), c.Wall, told
	m.events, m.answers, m.paths = nil, nil, nil
}

// after is the instant from which on so many ms have surely passed; none have at once.
func (m *Model) after(ms int64) int64 {
	if ms == 0 {
		return m.now
	}
	return m.now + ms + m.cfg.Cut
}

// apply carries a command out, for the first time or again.
func (m *Model) apply(cmd *engine.Command, again bool, first *wire.Result) (res wire.Result) {
	switch {
	case again:
		res = m.again(cmd, first)
	default:
		res = m.ask(cmd)
	}
	m.settle()
	return res
}

func (m *Model) ask(cmd *engine.Command) (res wire.Result) {
	away, moved := m.movedAway(cmd)
	switch {
	case moved:
		return away
	case cmd.Req.Op == wire.OpClaim:
		res = m.claim(cmd)
	case cmd.Req.Key != "":
		res = m.keyed(cmd)
	default:
		res, _ = m.execute(cmd)
	}
	if away, moved := m.lostAway(cmd, &res); moved {
		return away
	}
	return res
}

// again answers a request that its session asks a second time.
func (m *Model) again(cmd *engine.Command, first *wire.Result) (res wire.Result) {
	if cmd.Req.Op == wire.OpAcquire && first != nil && first.Status == wire.StatusOK {
		by := []engine.Caller{asks(cmd.Caller)}
		if at := m.keptAt(cmd); cmd.Req.Key != "" && at >= 0 {
			by = append(by, m.kept[at].by)
		}
		return m.recheck(cmd, first.Token, by...)
	}
	for i := range m.waiters {
		if w := &m.waiters[i]; w.open && w.caller == cmd.Caller {
			if !reflect.DeepEqual(w.req, *cmd.Req) {
				return wire.Result{Code: wire.InvalidArgument}
			}
			return m.reattach(cmd, w)
		}
	}
	if first != nil && (cmd.Req.Op != wire.OpAcquire && cmd.Req.Op != wire.OpRenew && cmd.Req.Op != wire.OpBind ||
		cmd.Req.Op == wire.OpAcquire && first.Status != wire.StatusQueued) {
		if again := m.repeatPart(cmd); again.Code != wire.OK {
			return again
		}
		return *first
	}
	if cmd.Req.Op != wire.OpAcquire && first != nil {
		if away, moved := m.movedAway(cmd); moved && cmd.Req.Op == wire.OpRenew {
			return away
		}
		if res, _ = m.execute(cmd); cmd.Req.Op == wire.OpRenew {
			if away, moved := m.lostAway(cmd, &res); moved {
				return away
			}
		}
		return res
	}
	if first != nil && first.Status == wire.StatusQueued {
		kept := cmd.Req.Key != "" && m.keptAt(cmd) >= 0
		w := m.entry(cmd.Req.Owner, cmd.NS)
		if !kept && (w == nil || !sameLocks(w.locks, cmd.Req.Locks)) { // it was granted once, or is over
			if away, moved := m.movedAway(cmd); moved {
				return away
			}
			return m.recheck(cmd, first.Token, asks(cmd.Caller))
		}
	}
	return m.ask(cmd)
}

func (m *Model) execute(cmd *engine.Command) (res wire.Result, seq int) {
	req := cmd.Req
	switch req.Op {
	case wire.OpSetRow, wire.OpOpen, wire.OpFreeze, wire.OpThaw, wire.OpLeave:
		if req.Attempt < m.attempt {
			return wire.Result{Code: wire.Aborted}, 0
		}
		m.attempt = req.Attempt
	}
	switch req.Op {
	case wire.OpAcquire:
		return m.acquire(cmd)
	case wire.OpRelease:
		of := engine.Caller{Session: cmd.Caller.Session, ID: req.Target}
		for _, w := range m.waiters {
			if req.Target != 0 && w.open && w.caller == of && w.owner == req.Owner && w.ns == cmd.NS {
				m.end(w.seq, wire.Result{Code: wire.Cancelled})
				break
			}
		}
		for _, r := range req.Releases {
			h := m.hold(req.Owner, cmd.NS, r.Path, r.Mode)
			switch fence, _ := m.fence(cmd.NS, r.Path); {
			case h == nil:
			case req.Token > 0 && (h.mode == wire.ModeRead || h.alg == wire.Semaphore || fence == req.Token):
				m.drop(req.Owner, cmd.NS, r.Path, r.Mode)
			case req.Token > 0 && req.Target == 0:
			case req.Target != 0 && !slices.Contains(h.by, of):
			case req.Target != 0 && len(h.by) > 1:
				h.by = slices.DeleteFunc(slices.Clone(h.by), func(c engine.Caller) bool { return c == of })
			default:
				m.drop(req.Owner, cmd.NS, r.Path, r.Mode)
			}
		}
		if !m.holdsAny(req.Owner, cmd.NS) {
			m.lapse(req.Owner, cmd.NS)
		}
	case wire.OpReleaseAll:
		m.releaseAll(req)
	case wire.OpRenew, wire.OpBind:
		res = m.renew(cmd)
	case wire.OpUnbind:
		for i := range m.leases {
			if l := &m.leases[i]; l.owner == req.Owner {
				l.cut(cmd.Caller.Session)
				if p, ok := l.pledges[cmd.Caller.Session]; ok {
					l.pledges[cmd.Caller.Session] = nPledge{until: p.until}
				}
			}
		}
		m.hangWaits(cmd, nil)
	case wire.OpDetach:
		m.detach(cmd)
	case wire.OpForceRelease:
		m.kill(req.Owner, "")
	case wire.OpKillNotice:
		m.clearEdge(req.Owner)
		m.events = append(m.events, engine.Event{Kind: wire.EventKilled, Owner: req.Owner})
	case wire.OpRequestRevoke:
		for i := range m.leases {
			if l := &m.leases[i]; l.owner == req.Owner {
				l.revoke = m.now + engine.RevokeMillis
			}
		}
	case wire.OpRevokeNotice:
		m.events = append(m.events, engine.Event{Kind: wire.EventRevoke, Owner: req.Owner})
	case wire.OpSetWaitEdge:
		res = m.setEdge(cmd)
	case wire.OpClearWaitEdge:
		m.clearEdge(req.Owner)
	case wire.OpCancelWait:
		m.cancel(cmd)
	case wire.OpSetRow:
		m.setRow(req)
	case wire.OpOpen:
		m.open(cmd)
	case wire.OpFreeze:
		res = m.freeze(cmd)
	case wire.OpThaw:
		m.thaw(req.Namespace)
	case wire.OpLeave:
		m.leave(req.Namespace)
		m.version = max(m.version, req.Target)
	case wire.OpFold:
		res = m.fold(cmd)
	default:
		panic("naive: no such operation: " + req.Op.String())
	}
	return res, 0
}

// expire ends all that ends with time, in the order in which it does.
func (m *Model) expire() {
	for m.expireOne() {
	}
	m.edges = slices.DeleteFunc(m.edges, func(e nEdge) bool { return e.deadline <= m.now })
	m.kept = slices.DeleteFunc(m.kept, func(k nKept) bool { return k.deadline <= m.now })
	m.settle()
}

// expireOne ends the lease or the waiter whose time is over first.
func (m *Model) expireOne() bool {
	at := m.now + 1
	end := func() {}
	for _, w := range m.waiters {
		if w.deadline < at {
			at, end = w.deadline, func() {
				m.end(w.seq, wire.Result{Code: wire.DeadlineExceeded,
					Cause: wire.CauseWaitOver})
			}
		}
	}
	for _, l := range m.leases {
		if l.deadline <= at && l.deadline <= m.now {
			at, end = l.deadline, func() { m.runOut(l.owner, l.ns) }
		}
	}
	end()
	return at <= m.now
}

// runOut ends a lease by itself, if its time is over.
func (m *Model) runOut(owner, ns string) {
	if l := m.lease(owner, ns); l != nil && l.deadline <= m.now {
		m.events = append(m.events, engine.Event{Kind: wire.EventExpired, Owner: owner, Namespace: ns})
		m.dropAll(owner, ns)
	}
}

// Due reports whether a lease or a wait is to be ended at an instant.
func (m *Model) Due(now int64) bool {
	return slices.ContainsFunc(m.leases, func(l nLease) bool { return l.deadline <= now }) ||
		slices.ContainsFunc(m.waiters, func(w nWaiter) bool { return w.deadline <= now })
}

// nextDeadline is when something ends with time next.
func (m *Model) nextDeadline() (at int64, ok bool) {
	var all []int64
	for _, l := range m.leases {
		all = append(all, l.deadline)
	}
	for _, w := range m.waiters {
		all = append(all, w.deadline)
	}
	for _, e := range m.edges {
		all = append(all, e.deadline)
	}
	for _, k := range m.kept {
		all = append(all, k.deadline)
	}
	if len(all) == 0 {
		return 0, false
	}
	return slices.Min(all), true
}

// drop gives up one hold.
func (m *Model) drop(owner, ns, path string, mode wire.Mode) {
	m.holds = slices.DeleteFunc(m.holds, func(h nHold) bool {
		return h.owner == owner && h.ns == ns && h.path == path && h.mode == mode
	})
}

// dropAll gives up all an owner holds in a namespace.
func (m *Model) dropAll(owner, ns string) {
	m.holds = slices.DeleteFunc(m.holds, func(h nHold) bool { return h.owner == owner && h.ns == ns })
	m.lapse(owner, ns)
}

func (m *Model) holdsAny(owner, ns string) bool {
	return slices.ContainsFunc(m.holds, func(h nHold) bool { return h.owner == owner && h.ns == ns })
}

// lapse ends a lease with its last hold. Requests that rely on a hold of it can
// never succeed: they leave the queue.
func (m *Model) lapse(owner, ns string) {
	m.leases = slices.DeleteFunc(m.leases, func(l nLease) bool { return l.owner == owner && l.ns == ns })
	for _, w := range slices.Clone(m.waiters) {
		relies := slices.ContainsFunc(w.locks, func(l wire.LockRequest) bool { return l.State == wire.StateHeld })
		if w.owner == owner && w.ns == ns && relies {
			m.end(w.seq, wire.Result{Status: wire.StatusLost, Reason: wire.ReasonMissingAlive})
		}
	}
}

// within says that one of the domains takes in a namespace; a handler and a colon
// stand for all its namespaces.
func within(ns string, domains ...string) bool {
	for _, d := range domains {
		if ns == d || bare(d) && wire.PathHandler(ns)+":" == d {
			return true
		}
	}
	return false
}

func (m *Model) releaseAll(req *wire.Request) {
	named := func(ns string) bool { return len(req.Domains) == 0 || within(ns, req.Domains...) }
	for _, w := range slices.Clone(m.waiters) {
		if w.owner == req.Owner && named(w.ns) && !w.open {
			m.removeWaiter(w.seq)
		}
	}
	for _, l := range slices.Clone(m.leases) {
		if l.owner == req.Owner && named(l.ns) {
			m.dropAll(l.owner, l.ns)
		}
	}
}

// renew extends the leases it names; those that are there also when it answers
// that others are lost.
func (m *Model) renew(cmd *engine.Command) (res wire.Result) {
	req := cmd.Req
	if req.Op == wire.OpBind && cmd.Bound {
		m.hangWaits(cmd, bindOf(cmd))
	}
	var renewed []string
	for i := range m.leases {
		l := &m.leases[i]
		if l.owner != req.Owner || len(req.Domains) > 0 && !within(l.ns, req.Domains...) {
			continue
		}
		renewed = append(renewed, l.ns)
		if req.TTLMillis > 0 { // Bind may leave the time as it is
			until := m.after(int64(req.TTLMillis))
			if req.Flags&wire.FlagExtend != 0 {
				until = max(until, l.deadline)
			}
			l.deadline = until
		}
		l.tie(l.kept(cmd, m.now))
		res.Flag = res.Flag || l.revoke > m.now
	}
	for _, d := range req.Domains {
		if !slices.ContainsFunc(renewed, func(ns string) bool { return within(ns, d) }) {
			if bare(d) {
				d = strings.TrimSuffix(d, ":")
			}
			return wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive, Path: d}
		}
	}
	if len(renewed) == 0 {
		return wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}
	}
	return res
}

// hangWaits hangs the leases that open calls of a session will bring its owner on a connection, and
// those of polled places that hang on an earlier one.
func (m *Model) hangWaits(cmd *engine.Command, b *nBind) {
	for i := range m.waiters {
		switch w := &m.waiters[i]; {
		case w.owner != cmd.Req.Owner:
		case w.open && w.caller.Session == cmd.Caller.Session:
			switch {
			case b == nil && w.bind != nil && (w.adrift || w.epoch < cmd.Epoch):
				// Its connection is gone: what it brings lasts for its grace, and hangs on nothing.
				w.bind = &nBind{session: w.bind.session, grace: w.bind.grace, given: true}
			case !w.adrift && (b == nil || b.epoch >= w.epoch):
				w.bind = b
			}
		case w.open || w.bind == nil || w.bind.session != cmd.Caller.Session:
		case b == nil || b.epoch > w.bind.epoch || b.epoch == w.bind.epoch && !w.adrift:
			w.bind, w.adrift = b, false
		}
	}
}

// tie hangs a lease on a connection, beside those of other sessions. No connection leaves it as
// it is, and so does an earlier one of a session it hangs on already.
func (l *nLease) tie(b *nBind) {
	if b == nil || b.given {
		return
	}
	if was := l.tieOf(b.session); was != nil && was.epoch > b.epoch && (was != l.bind || l.spent <= was.epoch) {
		return
	}
	if l.bind != nil && l.bind.session != b.session && l.spent <= l.bind.epoch {
		l.also = append(slices.Clone(l.also), l.bind)
	}
	l.spent = 0
	l.also = slices.DeleteFunc(slices.Clone(l.also), func(o *nBind) bool { return o.session == b.session })
	l.bind = b
	delete(l.pledges, b.session)
}

// pledge has a lease last until then for a session whose connection ended, whoever shares it.
func (l *nLease) pledge(s engine.Session, now int64, p nPledge) {
	if l.pledges == nil {
		l.pledges = make(map[engine.Session]nPledge)
	}
	if old := l.pledges[s]; old.until > now {
		if p.until = max(p.until, old.until); p.over == 0 {
			p.over, p.grace = old.over, old.grace
		}
	}
	l.pledges[s] = p
}

// again is the tie of a session that keeps the lease on a later connection, before the end of the earlier one or within
// its grace.
func (l *nLease) again(c engine.Caller, epoch uint64, now int64) *nBind {
	if l == nil {
		return nil
	}
	if b := l.tieOf(c.Session); b != nil && b.epoch < epoch && (b != l.bind || l.spent <= b.epoch) {
		return &nBind{session: c.Session, epoch: epoch, grace: b.grace}
	}
	switch p := l.pledges[c.Session]; {
	case p.until <= now:
		return nil
	case p.over == 0: // it is kept without a tie
		return &nBind{given: true}
	default:
		return &nBind{session: c.Session, epoch: epoch, grace: p.grace}
	}
}

// kept is the tie of a lease that a command keeps.
func (l *nLease) kept(cmd *engine.Command, now int64) *nBind {
	if b := bindOf(cmd); b != nil {
		return b
	}
	return l.again(cmd.Caller, cmd.Epoch, now)
}

func (l *nLease) tieOf(s engine.Session) *nBind {
	for _, b := range append(slices.Clone(l.also), l.bind) {
		if b != nil && b.session == s {
			return b
		}
	}
	return nil
}

// cut makes a lease independent of a session's connections.
func (l *nLease) cut(s engine.Session) {
	all := slices.DeleteFunc(append(slices.Clone(l.also), l.bind), func(b *nBind) bool {
		return b == nil ||
			b.session == s
	})
	if l.bind != nil && l.bind.session == s {
		l.spent = 0
	}
	if l.bind, l.also = nil, nil; len(all) > 0 {
		l.bind, l.also = all[len(all)-1], all[:len(all)-1]
	}
}

// detach shrinks the leases that are tied to a connection, or to an earlier one of
// its session, and to no other session's, to their grace; with none they end at once. The grace
// of a connection that ended before is left to it. What polled places tied to it are granted from
// now on lasts for the grace.
func (m *Model) detach(cmd *engine.Command) {
	for i := range m.waiters {
		w := &m.waiters[i]
		if b := w.bind; !w.open && b != nil && b.session == cmd.Caller.Session && b.epoch <= cmd.Epoch {
			w.adrift = true
		}
	}
	m.leaveCalls(cmd)
	for _, old := range slices.Clone(m.leases) {
		l := m.lease(old.owner, old.ns)
		b := l.tieOf(cmd.Caller.Session)
		if b == nil || b.epoch > cmd.Epoch || b == l.bind && l.spent > cmd.Epoch {
			continue
		}
		l.pledge(b.session, m.now, nPledge{m.after(b.grace), cmd.Epoch + 1, b.grace})
		switch {
		case len(l.also) > 0:
			l.cut(cmd.Caller.Session)
		default:
			l.spent = cmd.Epoch + 1
			longest := int64(0)
			for _, p := range l.pledges {
				longest = max(longest, p.until)
			}
			l.deadline = min(l.deadline, longest)
			m.runOut(old.owner, old.ns)
		}
	}
}

// leaveCalls ends the open waits of a session whose connection is gone, but for the grace of those
// that are tied to it.
func (m *Model) leaveCalls(cmd *engine.Command) {
	var over []int
	for i := range m.waiters {
		w := &m.waiters[i]
		switch {
		case !w.open || w.adrift || w.caller.Session != cmd.Caller.Session || w.epoch > cmd.Epoch:
		case w.bind == nil || w.bind.grace == 0:
			over = append(over, w.seq)
		default:
			w.adrift, w.deadline = true, min(w.deadline, m.after(w.bind.grace))
		}
	}
	for _, seq := range over {
		m.end(seq, wire.Result{Code: wire.Cancelled})
	}
}

// kill takes an owner's holds and waiters away, everywhere or in one namespace.
func (m *Model) kill(owner, ns string) {
	for _, w := range slices.Clone(m.waiters) {
		if w.owner == owner && (ns == "" || w.ns == ns) {
			m.end(w.seq, wire.Result{Code: wire.Aborted})
		}
	}
	for _, l := range slices.Clone(m.leases) {
		if l.owner == owner && (ns == "" || l.ns == ns) {
			m.dropAll(l.owner, l.ns)
		}
	}
}

func (m *Model) clearEdge(owner string) {
	m.edges = slices.DeleteFunc(m.edges, func(e nEdge) bool { return e.owner == owner })
}

func (m *Model) setEdge(cmd *engine.Command) (res wire.Result) {
	req, of, its, own := cmd.Req, cmd.Caller.Session, 0, false
	for _, e := range m.edges {
		if e.of == of && of != (engine.Session{}) {
			its++
			own = own || e.owner == req.Owner
		}
	}
	if its >= max(m.cfg.MaxEdges/4, 1) && !own {
		return wire.Result{Code: wire.ResourceExhausted}
	}
	known := slices.ContainsFunc(m.edges, func(e nEdge) bool { return e.owner == req.Owner })
	if !known && len(m.edges) >= m.cfg.MaxEdges {
		return wire.Result{Code: wire.ResourceExhausted}
	}
	m.clearEdge(req.Owner)
	m.edges = append(m.edges, nEdge{req.Owner, req.Blocker, req.Path, req.Reason, m.now + int64(req.TTLMillis), of})
	return res
}

// cancel ends an open call, unless a later connection has it, or gives it a grace
// to come back in.
func (m *Model) cancel(cmd *engine.Command) {
	for i := range m.waiters {
		w := &m.waiters[i]
		if !w.open || w.caller != (engine.Caller{Session: cmd.Caller.Session, ID: cmd.Req.Target}) {
			continue
		}
		if w.epoch > cmd.Epoch {
			return
		}
		grace := int64(cmd.Req.GraceMillis)
		if cmd.Req.Kinds == engine.GraceOfTie {
			if grace = 0; w.bind != nil {
				grace = w.bind.grace
			}
		}
		if grace > 0 {
			w.adrift, w.deadline = true, min(w.deadline, m.after(grace))
		} else {
			m.end(w.seq, wire.Result{Code: wire.Cancelled})
		}
		return
	}
}

// setRow sets or deletes a policy. A change of the algorithm in force clears the
// namespace.
func (m *Model) setRow(req *wire.Request) {
	before, _ := m.algorithm(req.Namespace)
	m.policies = slices.DeleteFunc(m.policies, func(p nPolicy) bool { return p.ns == req.Namespace })
	if req.Explicit {
		m.policies = append(m.policies, nPolicy{req.Namespace, req.Algorithm})
	}
	if after, _ := m.algorithm(req.Namespace); after == before {
		return
	}
	var owners []string
	for _, l := range m.leases {
		if l.ns == req.Namespace {
			owners = append(owners, l.owner)
		}
	}
	for _, w := range m.waiters {
		if w.ns == req.Namespace {
			owners = append(owners, w.owner)
		}
	}
	slices.Sort(owners)
	for _, o := range slices.Compact(owners) {
		m.kill(o, req.Namespace)
		m.events = append(m.events, engine.Event{Kind: wire.EventKilled, Owner: o, Namespace: req.Namespace})
	}
}

// open takes a namespace over that was empty until now: the floor stands for the
// fences of all its paths. What was kept of requests about them comes along.
func (m *Model) open(cmd *engine.Command) {
	req := cmd.Req
	all, err := engine.ReadCarried(req.Cursor)
	if err != nil {
		panic("naive: " + err.Error())
	}
	for _, c := range all {
		of := &engine.Command{Req: &wire.Request{Op: c.Op, Key: c.Key}, NS: c.NS}
		k := nKept{
			scope: scopeOf(of), hash: c.Hash, status: wire.StatusOK, token: c.Token, deadline: m.now + c.Left,
			by: nobody,
		}
		if at := m.keptAt(of); at >= 0 {
			old := m.kept[at]
			if old.hashed() != c.Hash {
				continue
			}
			k.deadline, k.of = max(k.deadline, old.deadline), old.of
			m.kept[at] = k
			continue
		}
		m.kept = append(m.kept, k)
	}
	m.counter = max(m.counter, req.Token)
	if req.Token > 0 {
		m.folds = append(m.folds, nFold{cmd.NS, req.Namespace, req.Token})
	}
	if req.Explicit {
		m.policies = append(m.policies, nPolicy{req.Namespace, req.Algorithm})
	}
	m.version = max(m.version, req.Target)
}

// roomForKey says that one more answer can be kept: of all, and a quarter of them of one session.
func (m *Model) roomForKey(cmd *engine.Command) bool {
	mine := 0
	for _, k := range m.kept {
		if k.of == cmd.Caller.Session && k.of != (engine.Session{}) {
			mine++
		}
	}
	return len(m.kept) < m.cfg.MaxKept && mine < max(m.cfg.MaxKept/4, 1)
}

// keyed is section 11. A release of paths in several namespaces is one command in
// each, so the namespace is part of its scope.
func (m *Model) keyed(cmd *engine.Command) wire.Result {
	scope, at := scopeOf(cmd), m.keptAt(cmd)
	if at < 0 && !m.roomForKey(cmd) {
		if strings.Contains(cmd.Req.Key, "\x00") {
			return wire.Result{Code: wire.Unavailable}
		}
		return wire.Result{Code: wire.ResourceExhausted}
	}
	plain := *cmd.Req
	if at >= 0 {
		switch k := &m.kept[at]; {
		case strings.Contains(plain.Key, "\x00"): // the claim was compared
			return m.partAgain(cmd, k)
		case !k.same(&plain):
			return wire.Result{Code: wire.InvalidArgument}
		case plain.Op == wire.OpAcquire && k.status == wire.StatusOK:
			res := m.recheck(cmd, k.token, k.by)
			if res.Status == wire.StatusOK && k.by != (engine.Caller{}) {
				for _, l := range plain.Locks {
					m.hold(plain.Owner, cmd.NS, l.Path, l.Mode).handOn(k.by, asks(cmd.Caller))
				}
				k.by = asks(cmd.Caller)
			}
			return res
		case plain.Op == wire.OpAcquire && plain.Flags&wire.FlagWait != 0 && m.waiter(k.seq) != nil:
			return m.reattach(cmd, m.waiter(k.seq))
		case plain.Op == wire.OpAcquire, plain.Op == wire.OpRenew:
		default:
			return wire.Result{}
		}
	}
	res, seq := m.execute(cmd)
	lost := plain.Op == wire.OpAcquire && (res.Status == wire.StatusConflict || res.Status == wire.StatusLost) ||
		plain.Op == wire.OpRenew && res.Status == wire.RenewLost
	switch {
	case res.Code != wire.OK || lost:
		m.kept = slices.DeleteFunc(m.kept, func(k nKept) bool { return k.scope == scope })
	case at < 0:
		m.kept = append(m.kept, nKept{
			scope: scope, req: plain, status: res.Status, token: res.Token, seq: seq,
			deadline: m.now + int64(m.cfg.KeptMillis),
			by:       asks(cmd.Caller),
			of:       cmd.Caller.Session, attempt: attemptOf(&plain),
		})
	default:
		m.kept[at].status, m.kept[at].token, m.kept[at].seq, m.kept[at].by = res.Status, res.Token, seq,
			asks(cmd.Caller)
	}
	return res
}

// same says that a request is the one whose answer is kept.
func (k *nKept) same(req *wire.Request) bool {
	if k.hash != 0 { // that is all there is of it
		return k.hash == engine.HashOf(req)
	}
	return reflect.DeepEqual(k.req, *req)
}

// hashed tells it apart from others.
func (k *nKept) hashed() uint64 {
	if k.hash != 0 {
		return k.hash
	}
	return engine.HashOf(&k.req)
}

func scopeOf(cmd *engine.Command) string {
	pieces := strings.Split(cmd.Req.Key, "\x00")
	scope := cmd.Req.Op.String() + " " + strings.Join(pieces[:min(len(pieces), 3)], "\x00")
	if cmd.Req.Op == wire.OpRelease {
		scope += " " + cmd.NS
	}
	return scope
}

// keptAt is where the answer to a command's key is, -1 when none is kept.
func (m *Model) keptAt(cmd *engine.Command) int {
	return slices.IndexFunc(m.kept, func(k nKept) bool { return k.scope == scopeOf(cmd) })
}

func (m *Model) waiter(seq int) *nWaiter {
	for i := range m.waiters {
		if m.waiters[i].seq == seq {
			return &m.waiters[i]
		}
	}
	return nil
}

// recheck answers a request that was answered OK: OK if all it asked for is still
// held by what one of some requests took or named, where that is known of all; else LOST. It is never executed again.
func (m *Model) recheck(cmd *engine.Command, token int64, by ...engine.Caller) wire.Result {
	a := nAsk{owner: cmd.Req.Owner, ns: cmd.NS, locks: slices.Clone(cmd.Req.Locks)}
	a.alg, _ = m.algorithm(cmd.NS)
	for i := range a.locks {
		a.locks[i].State = wire.StateHeld
	}
	if v, bad := m.lost(&a); bad {
		return v.result()
	}
	for _, l := range cmd.Req.Locks {
		h := m.hold(a.owner, a.ns, l.Path, l.Mode)
		if l.State == wire.StateHeld || len(h.by) == 0 || len(by) == 0 {
			continue
		}
		if !slices.ContainsFunc(by, func(c engine.Caller) bool { return c.ID == 0 || slices.Contains(h.by, c) }) {
			v := nVerdict{status: wire.StatusLost, path: l.Path, reason: missing(l.Mode, a.alg)}
			return v.result()
		}
	}
	a.locks = cmd.Req.Locks
	if held, keeps := m.heldToken(&a); keeps && a.fencedWrite() {
		token = held
	}
	if l := m.lease(a.owner, a.ns); l != nil {
		if b := l.kept(cmd, m.now); b != nil {
			l.deadline = max(l.deadline, m.after(int64(cmd.Req.TTLMillis)))
			l.tie(b)
		}
	}
	return wire.Result{Token: token, Namespace: cmd.NS}
}

// reattach gives a waiting acquire to the call that asks for it now.
func (m *Model) reattach(cmd *engine.Command, w *nWaiter) wire.Result {
	if w.open && w.caller != cmd.Caller {
		m.answers = append(m.answers, engine.Answer{Caller: w.caller, Result: wire.Result{Code: wire.Aborted}})
	}
	if w.caller != cmd.Caller || w.epoch != cmd.Epoch || w.adrift {
		w.deadline = m.after(queueMillis(cmd.Req))
		w.bind = bindOf(cmd)
	}
	w.caller, w.epoch, w.adrift = cmd.Caller, cmd.Epoch, false
	a := nAsk{owner: w.owner, ns: w.ns, alg: w.alg, locks: w.locks, seq: w.seq}
	v, _ := m.waits(&a)
	m.paths = v.paths
	res := v.result()
	res.Status, res.Token, res.Namespace, res.Position = wire.StatusQueued, w.token, w.ns, m.position(w)
	return res
}
