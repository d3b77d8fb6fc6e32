package engine

import (
	"strconv"

	"github.com/pathlockd/pathlockd/wire"
)

func decimal(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// acquire is one atomic step: all paths or none (contract.md section 5).
func (s *State) acquire(cmd *Command) wire.Result {
	req := cmd.Req
	alg, chosen := s.algorithm(cmd.NS)
	if err := s.tooShort(cmd, chosen); err != nil {
		var res wire.Result
		res.Fail(err)
		return res
	}
	a := asking{
		owner: req.Owner, ns: cmd.NS, alg: alg, l: s.ownership(req.Owner, cmd.NS),
		token: req.Token, own: req.Token > 0, seq: noPlace, by: cmd.Caller.mark(),
	}
	a.wants = s.parse(cmd.NS, req.Locks)
	if err := s.tooFar(&a); err != nil {
		var res wire.Result
		res.Fail(err)
		return res
	}
	if v, bad := s.hopeless(&a); bad {
		return v.result()
	}
	var entry *waiter
	if a.l != nil && req.Flags&wire.FlagWait == 0 {
		entry = s.pollFor(&a)
	}
	if v := s.judge(&a); v.status != wire.StatusOK {
		switch {
		case !v.blocked:
			return v.result()
		case req.Flags&wire.FlagNoQueue != 0:
			v.status = wire.StatusConflict
			return v.result()
		}
		return s.enqueue(cmd, &a, entry, v)
	}
	minted := int64(0)
	if entry != nil && !entry.own {
		minted = entry.token
	}
	res := s.take(&a, minted, grantOf(cmd))
	s.leavePoll(a.l)
	return res
}

// leavePoll ends the polled place of an owner whose acquire was answered OK, whatever
// it was for (contract.md section 7): its grant would be a hold that nobody asked for
// since.
func (s *State) leavePoll(l *lease) {
	if l != nil && l.poll != 0 && Planted != PlantPolledPlace {
		s.removeWaiter(l.poll, false)
	}
}

// tooShort refuses to lock a path that has fewer segments than namespaces are
// made of: its subtree would lie in many namespaces (contract.md section 3). A
// chosen namespace lifts the rule for what it holds. Whether it is chosen say the routes that
// the path was resolved with: the row of a policy comes before them, and goes behind them.
func (s *State) tooShort(cmd *Command, chosen bool) *wire.Error {
	if !cmd.Short && (chosen || segments(cmd.NS) >= s.cfg.Segments) {
		return nil
	}
	for i := range cmd.Req.Locks {
		if l := &cmd.Req.Locks[i]; l.State == wire.StateNew {
			return wire.Errorf(wire.InvalidArgument,
				"requests: path %s: needs at least %d segments (routing_prefix_segments), or an explicit namespace "+
					"that holds it",
				wire.Quote(l.Path), s.cfg.Segments)
		}
	}
	return nil
}

// tooFar refuses a caller's own token that would leave too few above it: what is minted
// next is above it, and must be a token that its holder can bring as its own (decision
// 0018).
func (s *State) tooFar(a *asking) *wire.Error {
	if a.token <= wire.FreeToken || a.token-wire.TokenStride <= s.counter || !a.writesAny() ||
		Planted == PlantAnyStride {
		return nil
	}
	return wire.Errorf(wire.InvalidArgument,
		"fencing_token %d: must be at most %d, or at most 2^48 above the highest that its namespace's group has "+
			"seen, which is %d",
		a.token, int64(wire.FreeToken), s.counter)
}

// parse answers the wishes of a request, with keys in scratch memory.
func (s *State) parse(ns string, locks []wire.LockRequest) []want {
	size := 0
	for i := range locks {
		size += keyHead + len(locks[i].Path)
	}
	if cap(s.keys) < size {
		s.keys = make([]byte, 0, size)
	}
	buf, wants := s.keys[:0], s.wants[:0]
	for i := range locks {
		l, from := &locks[i], len(buf)
		buf = appendKey(buf, ns, l.Path)
		wants = append(wants, want{view(buf[from:]), l.Mode, l.State, l.Permits})
	}
	s.keys, s.wants = buf, wants
	return wants
}

// result is the answer to a request that something stands in the way of.
func (v *verdict) result() wire.Result {
	res := wire.Result{Status: v.status, Reason: v.reason, Path: owned(v.path), Owner: v.owner}
	switch v.reason {
	case wire.ReasonStaleFencingToken:
		res.Current, res.Owner = v.fence, ""
	case wire.ReasonMissingAlive:
		res.Path = ""
	}
	return res
}

// grant is what a request brings with it for the moment it gets its paths.
type grant struct {
	ttl      uint64
	releases []wire.ReleaseRequest
	cmd      *Command // of one that just came, nil for a waiter
	w        *waiter  // of one that waited
}

func grantOf(cmd *Command) grant {
	return grant{ttl: cmd.Req.TTLMillis, releases: cmd.Req.Releases, cmd: cmd}
}

// take gives a all it wants, then does its inline releases, then sets its lease.
// minted is the token that was minted for it when it was queued, 0 for none.
func (s *State) take(a *asking, minted int64, g grant) wire.Result {
	if a.l == nil && len(a.wants) > 0 {
		a.l = s.newOwnership(a.owner, a.ns)
	}
	token, keep := s.tokenFor(a, minted)
	meta := s.metaFor(a.l, g)
	for i := range a.wants {
		s.occupy(a, &a.wants[i], token, keep, meta)
	}
	if a.l != nil && !a.l.waits.Empty() {
		s.nowCovered(a)
	}
	ns := ""
	if a.l != nil {
		ns = a.l.ns
		for i := range g.releases {
			s.key = appendKey(s.key[:0], a.ns, g.releases[i].Path)
			s.let(a.l, view(s.key), g.releases[i].Mode)
		}
		if a.l.holds.Empty() {
			s.lapse(a.l)
		} else {
			b := g.binding(a.l, s.now)
			s.extend(a.l, g.ttl)
			s.tie(a.l, b)
			if g.adrift() {
				p := pledge{session: g.w.bind.session, until: s.after(g.w.bind.grace)}
				if b != nil {
					p.over, p.grace = b.spent, b.grace
				}
				a.l.pledge(s.now, p)
			}
		}
	}
	if ns == "" {
		ns = owned(a.ns)
	}
	return wire.Result{Token: token, Namespace: ns}
}

// binding is the tie that the lease gets, nil to leave it as it is. A connection
// that is gone takes over no lease that is there already: a grant would shorten it.
// Nor does it keep a lease from ending with another one that it is tied to later.
func (g *grant) binding(l *lease, now int64) *binding {
	switch {
	case g.w == nil:
		return l.kept(g.cmd, now)
	case g.w.bind == nil && g.w.open && !g.w.adrift:
		return l.again(g.w.caller.Session, g.w.epoch, now)
	case !g.adrift():
		return g.w.bind
	case l.held() || g.w.bind.loose:
		return nil
	}
	spent := *g.w.bind
	spent.spent = spent.epoch + 1
	return &spent
}

// adrift says that it is for a waiter whose connection is gone, which was to tie the lease: it lasts for
// the grace, whoever ties the lease then.
func (g *grant) adrift() bool { return g.w != nil && g.w.adrift && g.w.bind != nil }

// metaFor answers what the new holds tell people: shared with earlier ones when
// it says the same.
func (s *State) metaFor(l *lease, g grant) *string {
	switch {
	case l == nil:
		return nil
	case g.w != nil:
		return g.w.meta
	case len(g.cmd.Meta) == 0:
		return nil
	case l.meta == nil || *l.meta != view(g.cmd.Meta):
		m := string(g.cmd.Meta)
		l.meta = &m
	}
	return l.meta
}

// tokenFor answers the token of a request that gets its paths. keep says that its
// writes keep the tokens they have (contract.md section 6).
func (s *State) tokenFor(a *asking, minted int64) (token int64, keep bool) {
	token, keeps := s.heldToken(a)
	switch {
	case !a.writesAny():
		return a.callers(), true
	case a.callers() > 0:
		s.raise(a.token)
		return a.token, false
	case keeps:
		return token, true
	case minted > 0 && !s.outdated(a, minted):
		return minted, false
	}
	return s.mint(), false
}

// writesAny says that the request has a fenced write.
func (a *asking) writesAny() bool { return writesAny(a.alg, a.wants) }

// writesAny is asking.writesAny of what is wanted under an algorithm.
func writesAny(alg wire.Algorithm, wants []want) bool {
	for i := range wants {
		if wants[i].mode == wire.ModeWrite {
			return alg != wire.Semaphore
		}
	}
	return false
}

// heldToken is the token of a request whose owner writes all the paths it wants
// to write already, so that it keeps it: the one token they share, or the
// highest when it only says that it holds them.
func (s *State) heldToken(a *asking) (token int64, keeps bool) {
	common, asked := true, false
	if a.alg == wire.Semaphore {
		return 0, false
	}
	for i := range a.wants {
		w := &a.wants[i]
		if w.mode != wire.ModeWrite {
			continue
		}
		if !a.l.writes(w.key) {
			return 0, false
		}
		asked = asked || w.state == wire.StateNew
		held := s.holds.Get(w.key).token
		common = common && (token == 0 || held == token)
		token = max(token, held)
	}
	return token, token != 0 && (common || !asked)
}

// callers is the caller's own token, 0 when it brought none.
func (a *asking) callers() int64 {
	if a.own {
		return a.token
	}
	return 0
}

// outdated says that a token minted when a request was queued must not be used
// any more: a path of it, or one that overlaps, has seen a later one.
func (s *State) outdated(a *asking, minted int64) bool {
	if m := s.marks.Get(a.ns); m != nil && *m >= minted {
		return true
	}
	if a.alg.Recursive() && s.undercut(a, minted) {
		return true
	}
	for i := range a.wants {
		if w := &a.wants[i]; w.mode == wire.ModeWrite {
			if _, stale := s.refuses(w.key, minted, a.l.writes(w.key)); stale {
				return true
			}
		}
	}
	return false
}

// occupy takes one path, or confirms it. A write that is taken, or whose token
// rises, outdates the tokens of requests that wait for it.
func (s *State) occupy(a *asking, w *want, token int64, keep bool, meta *string) {
	switch {
	case w.state == wire.StateHeld && (w.mode == wire.ModeRead || a.alg == wire.Semaphore):
		s.rely(a.l, w, a.by)
		return
	case w.mode == wire.ModeRead:
		s.share(a, w, readSuffix, meta)
		return
	case a.alg == wire.Semaphore:
		s.share(a, w, permSuffix, meta)
		return
	}
	if a.l.writes(w.key) {
		s.rely(a.l, w, a.by)
		if keep && meta == nil {
			return
		}
		h := s.holds.Edit(s.w, w.key)
		if meta != nil && w.state == wire.StateNew {
			h.meta = meta
		}
		if keep || h.token >= token {
			return
		}
		h.token, h.own = token, a.callers() > 0
	} else {
		key, h, _ := s.holds.Put(s.w, w.key, classWrite)
		h.owner, h.token, h.since, h.meta, h.relied = a.l.owner, token, s.wall, meta, relied{by: a.by}
		h.born, h.mode, h.alg, h.own = s.w.Mark(), wire.ModeWrite, a.alg, a.callers() > 0
		a.l.holds.Insert(s.w, key, classWrite, 0)
	}
	if !s.queue.Empty() {
		s.outdate(a.ns, w.key, token, a.alg.Recursive())
	}
}

// share takes a read or a permit.
func (s *State) share(a *asking, w *want, suffix string, meta *string) {
	class, permits := classRead, uint32(0)
	if suffix == permSuffix {
		class, permits = classWrite, w.permits
	}
	if h := s.shared(a.l, w.key, suffix); h != nil {
		s.rely(a.l, w, a.by)
		if meta != nil {
			s.holds.Edit(s.w, view(s.key2)).meta = meta
		}
		return
	}
	key := string(s.key2)
	h := s.holds.Insert(s.w, key, class, 0)
	h.owner, h.since, h.meta, h.born = a.l.owner, s.wall, meta, s.w.Mark()
	h.mode, h.alg, h.permits, h.relied = w.mode, a.alg, permits, relied{by: a.by}
	a.l.holds.Insert(s.w, key[:len(w.key)+len(suffix)], class, 0)
}

// rely notes that a request relies on a hold that its owner has already.
func (s *State) rely(l *lease, w *want, by uint64) {
	if h, _ := s.holdOf(l, w); h != nil && h.by != 0 && !h.has(by) {
		s.editHold(l, w).add(by)
	}
}

// editHold is a hold that holdOf found just now, to change.
func (s *State) editHold(l *lease, w *want) *hold {
	key := w.key
	if w.mode == wire.ModeRead || !l.writes(key) {
		key = view(s.key2) // where holdOf found it
	}
	return s.holds.Edit(s.w, key)
}

// mark names a request in the holds that it took, 0 for one of nobody. Two may share a name:
// what is asked by it names owner and path as well.
func (c Caller) mark() uint64 {
	if c.ID == 0 {
		return 0
	}
	return wire.AcquireMark(c.Session, c.ID)
}

// let releases one path of an owner. What is not held, or in the other mode, is
// left alone (contract.md section 8).
func (s *State) let(l *lease, key string, mode wire.Mode) {
	for _, suffix := range [...]string{"", permSuffix} {
		if mode == wire.ModeRead {
			suffix = readSuffix
		}
		if hkey, ok := l.holds.Key(s.suffixed(key, suffix)); ok {
			s.drop(l, hkey)
			return
		}
	}
}

// release gives paths of one namespace back.
func (s *State) release(cmd *Command) wire.Result {
	req := cmd.Req
	by := uint64(0)
	if req.Target != 0 {
		of := Caller{cmd.Caller.Session, req.Target}
		by = of.mark()
		if seq := s.callOf(of); seq != 0 {
			if w := s.waiter(seq); w.owner == req.Owner && w.ns == cmd.NS { // nor is it to be granted later
				s.abort(seq, wire.Errorf(wire.Cancelled, "a release took back what the request was to be granted"))
			}
		}
	}
	l := s.ownership(req.Owner, cmd.NS)
	if !l.held() {
		return wire.Result{}
	}
	for i := range req.Releases {
		s.key = appendKey(s.key[:0], cmd.NS, req.Releases[i].Path)
		w := want{key: view(s.key), mode: req.Releases[i].Mode}
		if s.forgo(l, &w, req.Token, by) {
			s.let(l, w.key, w.mode)
		}
	}
	if l.holds.Empty() {
		s.lapse(l)
	}
	return wire.Result{}
}

// forgo does what a release asks of a hold, and says whether that goes. If the release names a token, a hold of
// that goes; reads and permits have none, and go. If it names a request, by, that is taken from those that rely
// on the hold, which goes when it was the last. If it names both either does.
func (s *State) forgo(l *lease, w *want, token int64, by uint64) bool {
	if token <= 0 && by == 0 {
		return true
	}
	h, _ := s.holdOf(l, w)
	switch {
	case h == nil:
		return false
	case token > 0 && (h.token == token || w.mode == wire.ModeRead || h.alg == wire.Semaphore):
		return true
	case !h.has(by):
		return false
	case h.only(by):
		return true
	}
	s.editHold(l, w).remove(by)
	return false
}

// releaseAll gives everything of an owner back, and its polled entries, in the
// namespaces named.
func (s *State) releaseAll(cmd *Command) wire.Result {
	s.ownerships(cmd.Req.Owner, cmd.Req.Domains, func(l *lease) {
		if l.poll != 0 {
			s.removeWaiter(l.poll, false)
		}
		if l = s.ownership(l.owner, l.ns); l != nil {
			s.endQuietly(l)
		}
	})
	return wire.Result{}
}

// forceRelease takes everything of an owner away, and whatever it waits for.
// That it was killed is told once, by who looks after its wait edge.
func (s *State) forceRelease(cmd *Command) wire.Result {
	s.ownerships(cmd.Req.Owner, nil, func(l *lease) { s.evict(l) })
	return wire.Result{}
}

// evict removes all waiters of an ownership record and ends its lease.
func (s *State) evict(l *lease) {
	owner, ns := l.owner, l.ns
	for {
		key, ok := firstKey(&l.waits)
		if !ok {
			break
		}
		s.abort(seqOf(key), wire.Errorf(wire.Aborted, "the owner was killed while it waited in namespace %s",
			wire.Quote(ns)))
		if l = s.ownership(owner, ns); l == nil {
			return
		}
	}
	s.tell(l, wire.EventKilled)
	s.endQuietly(l)
}
