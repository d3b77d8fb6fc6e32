package engine

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// view looks at scratch bytes as a string, for calls that do not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// owned copies a string that aliases a command's buffer.
func owned(s string) string { return strings.Clone(s) }

// leaseKey builds the key of an owner's record in a namespace in scratch
// memory that the next call overwrites.
func (s *State) leaseKey(owner, ns string) string {
	s.key = appendLeaseKey(s.key[:0], owner, ns)
	return view(s.key)
}

// ownership answers the owner's record in a namespace to be changed, nil when
// it has none. A lease past its time is ended first, whole: what its owner does
// next must not find its old holds.
func (s *State) ownership(owner, ns string) *lease {
	l := s.leases.Edit(s.w, s.leaseKey(owner, ns))
	if l != nil {
		s.meets(l)
	}
	if l.held() && l.deadline <= s.now && Planted != PlantExpiredOwner {
		s.endLease(l, everything)
		l = s.leases.Edit(s.w, s.leaseKey(owner, ns))
	}
	return l
}

// enter answers the owner's record in a namespace, made if there is none.
func (s *State) enter(owner, ns string) *lease {
	if l := s.ownership(owner, ns); l != nil {
		return l
	}
	return s.newOwnership(owner, ns)
}

// newOwnership makes an ownership record for an owner that has none in the namespace.
func (s *State) newOwnership(owner, ns string) *lease {
	key := owned(s.leaseKey(owner, ns))
	l := s.leases.Insert(s.w, key, trie.None, 0)
	l.owner, l.ns = splitLeaseKey(key)
	l.born = s.w.Mark()
	l.timer = s.deadlines.timer(timeLease, key)
	if s.owners != nil {
		s.owners.OwnerCame(l.owner)
	}
	return l
}

// leaveIfIdle drops an ownership record in which nothing is held or waited for any more.
func (s *State) leaveIfIdle(l *lease) {
	if l.gone || !l.holds.Empty() || !l.waits.Empty() {
		return
	}
	l.gone = true
	key := l.timer.key
	s.addTombstone(tableLease, key, l.born)
	if s.owners != nil {
		s.owners.OwnerWent(l.owner)
	}
	s.leases.Remove(s.w, key)
	s.deadlines.free(l.timer)
}

// after is the instant from which on so many ms have surely passed since the step in
// hand; none have at once.
func (s *State) after(ms int64) int64 { return s.since(s.now, ms) }

// since is the same for an earlier step.
func (s *State) since(step, ms int64) int64 { return s.cfg.since(step, ms) }

func (c *Config) since(step, ms int64) int64 {
	if ms == 0 {
		return step
	}
	return step + ms + c.Cut
}

// extend makes the lease last at least ttl ms from now on.
func (s *State) extend(l *lease, ttl uint64) {
	l.asked = false
	if at := leaseEnd(s.after(int64(ttl))); !l.held() || at > l.deadline {
		l.deadline = at
		s.deadlines.arm(l.timer, at)
	}
}

// leaseEnd is the deadline of a lease that is to end at an instant: never 0, which
// would say that nothing is held.
func leaseEnd(at int64) int64 {
	if at == 0 {
		return -1
	}
	return at
}

// shorten makes the lease last until an instant at most.
func (s *State) shorten(l *lease, until int64) {
	if at := leaseEnd(until); at < l.deadline {
		l.deadline = at
		s.deadlines.arm(l.timer, at)
	}
}

// tie ties the lease to a connection, if there is one to tie it to. What was asked
// on an earlier connection of the session comes too late: that one's end must not
// end the lease. If the later one has ended, the earlier one is what it hangs on.
//
// Several sessions may use an owner. Its lease is tied to the connections of all that tied it,
// and is shrunk when the last of them has ended: nobody loses a lock whose connection stands
// because somebody else of the same name has gone. Nor is the grace of one that ended before cut
// short by that of the last (lease.pledges), unless its session came back and ties the lease anew.
func (s *State) tie(l *lease, b *binding) {
	if b == nil || b.loose {
		return
	}
	l.asked = false
	b = s.fresh(b)
	was, old := l.tieOf(b.session), l.bind
	switch {
	case was == nil:
	case b.epoch < was.epoch && was.spent <= was.epoch:
		return
	case was != old:
		l.also = slices.DeleteFunc(slices.Clone(l.also), func(o *binding) bool { return o == was })
	}
	l.bind = b
	l.redeem(b.session)
	switch {
	case old == nil || old.of(b.session):
	case old.spent > old.epoch: // that connection is gone
		s.noteTie(l, old)
	default:
		l.also = append(slices.Clone(l.also), old)
		if len(l.also) > maxTies {
			s.looseTie(l)
		}
	}
	if was == nil {
		s.noteTie(l, b)
	}
}

// maxTies is how many connections a lease hangs on beside the last. Over it the first are
// replaced by one that never ends: it lasts for its time then. It is how many pledges a lease keeps
// apart, too; over it the first two become one that lasts as long as either.
const maxTies = 16

func (s *State) looseTie(l *lease) {
	first := l.also[:2]
	l.also = append([]*binding{{loose: true}}, l.also[2:]...)
	for _, b := range first {
		s.noteTie(l, b)
	}
}

// of says that a tie is to a connection of a session.
func (b *binding) of(id Session) bool { return !b.loose && b.session == id }

// tieOf is the lease's tie to a session, nil if there is none.
func (l *lease) tieOf(id Session) *binding {
	if l.bind != nil && l.bind.of(id) {
		return l.bind
	}
	for _, b := range l.also {
		if b.of(id) {
			return b
		}
	}
	return nil
}

// noteTie notes for a tie that came or went whether anything of the record hangs on its session
// now: the lease, or what the polled place is to bring.
func (s *State) noteTie(l *lease, b *binding) {
	if b == nil || b.loose {
		return
	}
	id, keys := b.session, s.ties[b.session]
	polls := s.polled(l)
	hangs := l.tieOf(id) != nil || polls != nil && polls.bind != nil && polls.bind.session == id
	switch noted := keys != nil && keys.Get(l.timer.key) != nil; {
	case hangs == noted:
	case hangs:
		if keys == nil {
			keys = new(trie.Tree[struct{}])
			s.ties[id] = keys
		}
		keys.Insert(s.w, l.timer.key, trie.None, 0)
	default:
		if keys.Remove(s.w, l.timer.key); keys.Empty() {
			delete(s.ties, id)
		}
	}
}

// cutTie makes the lease independent of a session's connections.
func (s *State) cutTie(l *lease, id Session) {
	if b := l.tieOf(id); b != nil {
		s.cut(l, b)
	}
}

// cut takes one of the lease's ties away.
func (s *State) cut(l *lease, b *binding) {
	l.without(b)
	s.noteTie(l, b)
}

func (l *lease) without(b *binding) {
	if last := len(l.also) - 1; b != l.bind {
		l.also = slices.DeleteFunc(slices.Clone(l.also), func(o *binding) bool { return o == b })
	} else if l.bind = nil; last >= 0 {
		l.bind, l.also = l.also[last], l.also[:last:last]
	}
}

// untie makes the lease independent of any connection.
func (s *State) untie(l *lease) {
	for l.bind != nil {
		s.cut(l, l.bind)
	}
}

// bindingOf is the tie that a command asks for, nil when it does not.
func bindingOf(cmd *Command) *binding {
	if !cmd.Bound {
		return nil
	}
	return &binding{session: cmd.Caller.Session, epoch: cmd.Epoch, grace: cmd.Grace}
}

// bound answers the tie to keep: the old one when it says the same, but not that the lease was shrunk for it.
// Its connection may stand all the same, when the lease came of a wait that was left its grace there; and what is
// tied anew ends with it.
func (l *lease) bound(cmd *Command) *binding {
	if !cmd.Bound {
		return nil
	}
	if b := l.bind; b != nil && b.of(cmd.Caller.Session) && b.epoch == cmd.Epoch && b.grace == cmd.Grace &&
		b.spent == 0 {
		return b
	}
	return bindingOf(cmd)
}

// kept answers the tie of a lease that a command keeps: what it asks for, or that which its session has on an earlier
// connection, or had until that ended.
func (l *lease) kept(cmd *Command, now int64) *binding {
	if b := l.bound(cmd); b != nil {
		return b
	}
	return l.again(cmd.Caller.Session, cmd.Epoch, now)
}

// everything is a budget that is never used up.
const everything = int(^uint(0) >> 1)

// leaseOver ends a lease whose time has come and answers how many holds that
// freed, at least 1.
func (s *State) leaseOver(key string, budget int) int {
	l := s.leases.Edit(s.w, key)
	if l == nil || !l.held() {
		return 1
	}
	if Planted == PlantExpiredOwner && s.now < l.deadline+plantedLag {
		s.deadlines.arm(l.timer, l.deadline+plantedLag)
		return 1
	}
	s.meets(l) // who left it is not told
	return s.endLease(l, budget)
}

// endLease frees up to budget of the holds of a lease that is over. While some
// are left the lease stays due, and whoever meets them finishes the work.
func (s *State) endLease(l *lease, budget int) (cost int) {
	if !l.quiet && budget > 0 { // each step says of what it frees: others may have that after it
		s.tell(l, wire.EventExpired)
	}
	for cost < budget {
		hkey, ok := firstKey(&l.holds)
		if !ok {
			break
		}
		s.drop(l, hkey)
		cost++
	}
	if !l.holds.Empty() {
		s.deadlines.arm(l.timer, l.deadline)
		return cost
	}
	if !l.quiet {
		s.event(wire.EventExpired, l.owner, "", l.ns, 0)
	}
	s.lapse(l)
	return max(cost, 1)
}

// endQuietly ends a lease by somebody's will: no event, and what the budget does
// not cover is freed as if it had run out.
func (s *State) endQuietly(l *lease) {
	if !l.held() {
		return
	}
	l.quiet = true
	s.shorten(l, s.now)
	s.endLease(l, s.cfg.ReapBudget)
}

// lapse is what happens when nothing is held any more: lease, revoke mark and
// tie go, and queued requests that rely on a hold can never succeed.
func (s *State) lapse(l *lease) {
	s.untie(l)
	l.deadline, l.pledges, l.revoke, l.quiet = 0, nil, 0, false
	s.deadlines.disarm(l.timer)
	s.dropRelying(l)
	s.leaveIfIdle(l)
}

// firstKey is the first key of a tree.
func firstKey(t *trie.Tree[struct{}]) (key string, ok bool) {
	t.All().Ascend(func(k string, _ *struct{}) bool { key, ok = k, true; return false })
	return key, ok
}

// drop frees one hold of an owner, named as its lease names it, and notes what
// that may let in.
func (s *State) drop(l *lease, hkey string) {
	f := freed{key: hkey, write: true}
	switch suffix := hkey[max(0, len(hkey)-2):]; suffix {
	case readSuffix, permSuffix:
		f.key, f.write = hkey[:len(hkey)-2], suffix == permSuffix
		s.key2 = append(append(s.key2[:0], hkey...), l.owner...)
		key := view(s.key2)
		h := s.holds.Get(key)
		f.recursive = h.alg.Recursive()
		s.addTombstone(tableShared, key, h.born)
		s.holds.Remove(s.w, key)
	default:
		h := s.holds.SetClass(s.w, hkey, classGhost)
		f.recursive = h.alg.Recursive()
		s.addTombstone(tableHold, hkey, h.born)
		h.owner, h.meta, h.since, h.born, h.relied = "", nil, s.now, s.w.Mark(), relied{}
	}
	l.holds.Remove(s.w, hkey)
	s.freed = append(s.freed, f)
}

// renew does Renew, and Bind's renewal, in the namespaces the command names.
// With no lease to renew in a named one it is lost; without names it is lost
// when it renewed nothing.
func (s *State) renew(cmd *Command) (res wire.Result) {
	req := cmd.Req
	renewed := 0
	s.ownerships(req.Owner, req.Domains, func(l *lease) {
		if req.Op == wire.OpBind && cmd.Bound {
			s.hangWaits(l, cmd, bindingOf(cmd))
		}
		if !l.held() {
			return
		}
		renewed++
		if req.TTLMillis > 0 {
			if req.Flags&wire.FlagExtend == 0 {
				l.deadline = 0
			}
			s.extend(l, req.TTLMillis)
		}
		s.tie(l, l.kept(cmd, s.now))
		res.Flag = res.Flag || l.revoke > s.now
	})
	if missing, ok := s.missing(req.Owner, req.Domains); !ok || renewed == 0 {
		return wire.Result{Status: wire.RenewLost, Path: missing, Reason: wire.ReasonMissingAlive}
	}
	return res
}

// unbind makes the owner's leases independent of the connection.
func (s *State) unbind(cmd *Command) wire.Result {
	s.ownerships(cmd.Req.Owner, nil, func(l *lease) {
		s.cutTie(l, cmd.Caller.Session)
		l.forswear(cmd.Caller.Session)
		s.hangWaits(l, cmd, nil)
	})
	return wire.Result{}
}

// hang ties the lease that a waiter is to bring to a connection, or with nil to none. When that
// ends, polled places are found by their ties, as leases are; open calls have an end of their own.
func (s *State) hang(l *lease, w *waiter, b *binding) {
	was := w.bind
	if w.bind = s.fresh(b); !w.open {
		w.adrift = false
		s.noteTie(l, was)
		s.noteTie(l, b)
	}
}

// hangWaits ties the leases that an owner's waits will bring, as far as a session asked for
// them or has tied them, to the connection of that session that a command came on, or with nil to none.
// A call of an earlier connection is given up by an unbind, and yet lasts, as what it brings, for no more than the
// grace when that is gone, whether its end is known yet or not: only a repeat of it says that its client lives.
func (s *State) hangWaits(l *lease, cmd *Command, b *binding) {
	var waits []uint64
	l.waits.All().Ascend(func(key string, _ *struct{}) bool {
		waits = append(waits, seqOf(key))
		return true
	})
	slices.Sort(waits)
	for _, seq := range slices.Compact(waits) {
		s.meetsCall(seq)
		switch w := s.waiter(seq); {
		case w == nil || !w.rehangs(cmd.Caller.Session, b):
		case b == nil && w.open && (w.adrift || w.epoch < cmd.Epoch):
			w, given := s.editWaiter(seq), *w.bind
			given.loose = true
			w.bind = &given
		default:
			s.hang(l, s.editWaiter(seq), b)
		}
	}
}

// rehangs says that a waiter is one of a session that hang on b from now on.
func (w *waiter) rehangs(of Session, b *binding) bool {
	switch {
	case w.open && (w.caller.Session != of || b == nil && w.bind == nil):
		return false
	case w.open: // a later bind does not reach a call whose connection is gone, nor an earlier one what was asked since
		return b == nil || b.epoch >= w.epoch && !w.adrift
	case w.bind == nil || w.bind.session != of:
		return false
	}
	return b == nil || b.epoch > w.bind.epoch || b.epoch == w.bind.epoch && !w.adrift // else that connection is gone
}

// revoke marks the owner's leases, so that its next renewals tell it, and tells the sessions that they are tied to.
func (s *State) revoke(cmd *Command) wire.Result {
	s.ownerships(cmd.Req.Owner, nil, func(l *lease) {
		until := s.now + int64(s.cfg.RevokeMillis)
		if l.held() && (l.revoke != until || !l.asked) { // else it was told in this instant
			l.revoke, l.asked = until, true
			s.tell(l, wire.EventRevoke)
		}
	})
	return wire.Result{}
}

// ownerships calls f with each of the owner's records, to be changed, that one
// of the domains takes in; all of them when there are none. A domain is a
// namespace, or a handler and a colon for all its namespaces.
func (s *State) ownerships(owner string, domains []string, f func(*lease)) {
	var keys []string
	s.leases.Sub(s.leaseKey(owner, "")).Ascend(func(key string, _ *lease) bool {
		_, ns := splitLeaseKey(key)
		if inDomains(ns, domains) {
			keys = append(keys, key)
		}
		return true
	})
	for _, key := range keys {
		if l := s.ownership(splitLeaseKey(key)); l != nil {
			f(l)
		}
	}
}

// missing answers the first domain that takes in no lease of the owner, ok when
// there is none.
func (s *State) missing(owner string, domains []string) (domain string, ok bool) {
	for _, d := range domains {
		found := false
		s.leases.Sub(s.leaseKey(owner, "")).Ascend(func(key string, l *lease) bool {
			_, ns := splitLeaseKey(key)
			found = l.held() && l.deadline > s.now && inDomain(ns, d)
			return !found
		})
		if !found {
			if wire.IsHandler(d) {
				d = d[:len(d)-1]
			}
			return owned(d), false
		}
	}
	return "", true
}

func inDomains(ns string, domains []string) bool {
	for _, d := range domains {
		if inDomain(ns, d) {
			return true
		}
	}
	return len(domains) == 0
}

// inDomain says that domain d takes in namespace ns.
func inDomain(ns, d string) bool {
	if wire.IsHandler(d) {
		return strings.HasPrefix(ns, d) || ns == d[:len(d)-1]
	}
	return ns == d
}
