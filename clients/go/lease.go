package pathlockd

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// leaseName tells leases apart: an owner has one in each namespace where it holds
// something.
type leaseName struct{ owner, namespace string }

// lease is what the locks of one owner in one namespace stand on: nearly always
// one lock. Everything in it is under the keeper's lock.
type lease struct {
	k       *keeper
	name    leaseName
	domains [1]string     // of its renewals, and of what its owner holds
	ttl     time.Duration // the longest of its locks
	least   time.Duration // and the shortest
	locks   []*Lock
	one     [1]*Lock // memory of locks

	sure   time.Duration // until when it lasts by what the server confirmed
	ties   []*tie        // and connections that it may hang on
	oneTie [1]*tie       // memory of ties
	grace  time.Duration // the lowest that it may have when one of them is gone
	// all that it may have, from higher to lower and from earlier to later, nil: it alone
	graces []graceFrom
	hung   []tieFrom // those of ties that it hangs on from a time on
	// since when it may hang on connections that the client has forgotten; 0: it does not
	loose   time.Duration
	sent    atomic.Pointer[tieFrom] // what its renewal was sent on, and when; nil: none is under way
	granted time.Duration           // when the last of its locks was taken
	renewAt time.Duration
	watchAt time.Duration // 0: it is watched, or will not be

	joined   int           // how many locks it has had
	shared   bool          // the program named the owner, or asked in its name since: another client may use it
	watched  bool          // the owner's events are told
	doubt    bool          // it need not be the lease that its locks were taken under: a look is to be asked for
	looking  bool          // one is under way: no renewal counts until one is answered that was asked after it
	asks     *look         // that one, nil without
	killed   bool          // somebody took away what the owner had, maybe before some of it was taken
	checking bool          // that is being asked though there is no doubt
	learning bool          // a lock has come that is to be asked about at once, while a look or that was under way
	checkAt  time.Duration // from when on it is to be
	paged    time.Duration // when the page of a question beside the renewals was asked for first that is not answered
	asides   int           // how many of those questions have no answer
	page     uint32        // how much of that is told at once: a long answer would be in the way of renewals
	looked   int           // number of the last lock of which it was told
	// until when each is sure of which a renewal says something, by its own TTL, 0: there are none
	brief   time.Duration
	fresh   time.Duration // until when the later ones are sure, 0: there are none
	assures assures       // what asks about some of those apart
	// until when those count at most that something may take back (releasing.go), 0: there are none
	risk time.Duration

	turns      int           // counts what the answer to an earlier renewal says nothing about: what it hangs on
	asked      int           // turns when the last renewal was asked for
	asking     bool          // it is under way
	needs      bool          // once it is answered a look is to be asked for: without one it does not count
	again      bool          // what is under way is to be asked for once more: something was told meanwhile
	capped     time.Duration // until when it counts at most, as something shortened the lease; unlimited: nothing did
	askedTTL   time.Duration // for which time
	askedGrace time.Duration // with the least that it may get
	askedAll   int           // joined at that time
	renewed    renewed       // what is to count once the look is answered that is under way
	unproved   renewed       // what is to count once another one is: it was answered since that one was asked
	unlooked   bool          // a look was refused while it was under way: that does not count
	fails      int
	lastFail   error
	sub        *Subscription

	at    time.Duration // when it needs something: place in the heap
	place int           // -1: not kept
}

// renewed is what a renewal says that counts with a look.
type renewed struct {
	sure time.Duration // until when the lease lasts by it; 0: there is none
	sent time.Duration // when it was first sent
	of   int           // the number of the last lock that it says something of
}

// domainOf answers what a request names that is about one namespace alone. A bare handler would
// stand for all its namespaces, and its root path stands for the one it lies in: that is the
// bare one as long as anything is held there, as a change of that is refused.
func domainOf(namespace string) string {
	if strings.IndexByte(namespace, ':') < 0 {
		return namespace + ":/"
	}
	return namespace
}

// deadline is until when the lease surely lasts for all of its locks.
func (l *lease) deadline() time.Duration {
	at := l.lasting()
	for _, some := range [...]time.Duration{l.brief, l.fresh, l.risk} {
		if some != 0 {
			at = min(at, some)
		}
	}
	return at
}

// covers is until when it surely lasts for one of its locks: a later one may be sure for less than those of which a
// renewal says something, or for longer.
func (l *lease) covers(lk *Lock) time.Duration {
	at := lk.sure
	if lk.confirmed {
		at = min(at, l.sure)
	}
	if lk.capped != 0 {
		at = min(at, lk.capped)
	}
	return min(at, l.tied())
}

// lasting is until when it does for those of which a renewal says something.
func (l *lease) lasting() time.Duration { return min(l.sure, l.tied()) }

// tied is until when no connection that it may hang on ends it.
func (l *lease) tied() time.Duration {
	at := unlimited
	for _, t := range l.ties {
		if !t.excused {
			at = min(at, l.until(t))
		}
	}
	if l.loose != 0 {
		at = min(at, l.untilFrom(&forgotten, l.loose))
	}
	if on := l.sent.Load(); on != nil && !on.t.excused && !slices.Contains(l.ties, on.t) {
		// however long that has said nothing: it is whole then, or ties nothing
		at = min(at, l.untilFrom(on.t, on.from))
	}
	return at
}

// forgotten stands for the connections of which the client knows nothing.
var forgotten tie

// loosen takes note that it may hang on connections from a time on that the client has forgotten. Their end may be
// known, or not be told yet, so it is sure for a grace from then, whatever is answered on others.
func (l *lease) loosen(from time.Duration) {
	if l.turns++; l.loose == 0 {
		l.loose = from
	}
}

// graceFrom is a grace that a lease has from when what gives it was carried out, which was sent at a time.
type graceFrom struct{ grace, from time.Duration }

// tieFrom is a connection that a lease hangs on from when what ties it was carried out, likewise.
type tieFrom struct {
	t    *tie
	from time.Duration
}

// maxGraces is how many graces of a lease are told apart.
const maxGraces = 4

// until is how long it lasts on a connection: by each grace from what was answered on it, or from when what gives the
// grace, or ties it to the connection, was sent, as that is carried out while the connection is whole, or never.
func (l *lease) until(t *tie) time.Duration {
	if i := l.hangs(t); i >= 0 {
		return l.untilFrom(t, l.hung[i].from)
	}
	return l.untilFrom(t, 0)
}

// untilFrom is until for one that it hangs on from a time on.
func (l *lease) untilFrom(t *tie, from time.Duration) time.Duration {
	if l.graces == nil {
		return t.until(l.grace, from)
	}
	at := unlimited
	for _, g := range l.graces {
		at = min(at, t.until(g.grace, max(from, g.from)))
	}
	return at
}

// hangs finds a connection among those that it hangs on from a time on.
func (l *lease) hangs(t *tie) int {
	return slices.IndexFunc(l.hung, func(h tieFrom) bool { return h.t == t })
}

// shorten lowers until when it lasts for certain, and each of its locks, as another lease may be found to be theirs.
func (l *lease) shorten(sure time.Duration) {
	l.sure = min(l.sure, sure)
	l.cap(sure)
	for _, lk := range l.locks {
		lk.sure = min(lk.sure, sure)
	}
	l.bounds()
}

// curb gives it a lower grace, if it is one, by something that was sent at a time, and which may tie it to a
// connection.
func (l *lease) curb(grace, sent time.Duration, t *tie) {
	if grace < l.grace {
		if l.graces == nil {
			l.graces = []graceFrom{{grace: l.grace}}
		}
		last := len(l.graces) - 1
		for ; last > 0 && (l.graces[last].from >= sent || last+2 > maxGraces); last-- {
			sent = min(sent, l.graces[last].from) // this one is lower
		}
		l.graces = append(l.graces[:last+1], graceFrom{grace, sent})
		l.renewAt = min(l.renewAt, l.k.c.now()+grace/renewAt)
		l.graced(grace)
	}
	l.bindTo(t, sent)
}

// bindTo takes note that it may hang on one more connection by something that was sent at a time, and is carried out
// while that is whole, or never.
func (l *lease) bindTo(t *tie, sent time.Duration) {
	l.turns++
	if i := l.hangs(t); i >= 0 {
		l.hung[i].from = min(l.hung[i].from, sent)
	} else if !slices.Contains(l.ties, t) {
		l.ties, l.hung = append(l.ties, t), append(l.hung, tieFrom{t, sent})
	}
}

// graced gives it a grace.
func (l *lease) graced(grace time.Duration) {
	k := l.k
	l.grace = grace
	if grace >= k.c.opt.grace {
		delete(k.mu.low, l)
		return
	}
	if k.mu.low == nil {
		k.mu.low = make(map[*lease]struct{})
	}
	k.mu.low[l] = struct{}{}
	k.rouse(0) // signs of life are wanted more often
}

// hang takes note that the lease may hang on one more connection, for as long as that is whole.
func (l *lease) hang(t *tie) {
	l.turns++
	if i := l.hangs(t); i >= 0 {
		l.hung = slices.Delete(l.hung, i, i+1)
	}
	if !slices.Contains(l.ties, t) {
		l.ties = append(l.ties, t)
	}
}

// next is when the lease needs something.
func (l *lease) next() time.Duration {
	at := l.deadline()
	if !l.asking {
		at = min(at, l.renewAt)
	}
	if l.watchAt != 0 {
		at = min(at, l.watchAt)
	}
	return at
}

// join adds a lock.
func (l *lease) join(lk *Lock, by *answer, now time.Duration) {
	if l.locks == nil {
		l.locks, l.domains[0] = l.one[:0], domainOf(l.name.namespace)
	}
	l.locks = append(l.locks, lk)
	l.joined++
	lk.lease, lk.number = l, l.joined
	l.shared = l.shared || !lk.alone
	l.doubt = l.doubt || l.joined > 1
	l.granted = now
	l.lasts()
	ttl := l.k.lasting(l.name, lk.ttl)
	lk.sure = by.sent + ttl - margin(ttl)
	lk.taken, lk.lived, lk.capped, lk.risky, lk.confirmed = now, by.sent, 0, nil, false
	curbed := lk.curbs.later(by)
	if curbed {
		lk.sure = min(lk.sure, lk.curbs.until(by.sent))
		if lk.curbs.cut {
			l.loosen(by.sent)
		}
	}
	if l.joined == 1 {
		l.looked, lk.confirmed = 1, true
		l.sure, l.brief = lk.sure, lk.sure
		l.renewAt, l.checkAt = l.renewal(by.sent, ttl), l.nextCheck(by.sent, 0, 0)
		l.ties = append(l.oneTie[:0], by.tie)
		l.k.stray(l, by.tie, by.sent)
	} else {
		if l.fresh == 0 || lk.sure < l.fresh {
			l.fresh = lk.sure
		}
		if lk.sure < l.sure {
			l.renewAt = now
		}
		l.checkAt = min(l.checkAt, l.nextCheck(by.sent, 0, 0)) // its TTL may be the shortest
		if !slices.Contains(l.ties, by.tie) {
			l.hang(by.tie)
		}
	}
	for t := by.tie.next; t != nil; t = t.next { // hello was said since it was granted
		l.follow(t)
	}
	switch {
	case curbed || len(l.ties) > 1 || !by.tie.live: // a renewal tells which it hangs on
		l.renewAt = now
	case l.loose != 0:
		l.renewAt = min(l.renewAt, l.loose+l.grace/renewAt)
	}
}

// part removes locks, which may have gone before.
func (l *lease) part(gone ...*Lock) {
	for _, lk := range gone {
		if i := slices.Index(l.locks, lk); i >= 0 {
			l.locks = slices.Delete(l.locks, i, i+1)
			lk.lease = nil
		}
	}
	l.lasts()
	l.bounds()
	l.risks()
}

// lasts notes the TTLs of its locks.
func (l *lease) lasts() {
	l.ttl, l.least = 0, 0
	for i, lk := range l.locks {
		if l.ttl = max(l.ttl, lk.ttl); i == 0 || lk.ttl < l.least {
			l.least = lk.ttl
		}
	}
}

// along declares the locks lost that go with what a lock gives back, before that is sent: to the
// owner they are one. A write stays that was taken under a later token since.
func (l *lease) along(lk *Lock, todo *chores) (gone []*Lock) {
	if len(l.locks) == 0 {
		return nil
	}
	goes := on(lk.paths)
	for _, other := range l.locks {
		i := slices.IndexFunc(other.paths, func(p Path) bool {
			return goes(p) && (p.Mode == Read || p.Permits > 0 || lk.token == 0 || other.token <= lk.token)
		})
		if i >= 0 {
			other.ends(&LostError{Path: other.paths[i].Path, Cause: ErrExpired}, todo)
			gone = append(gone, other)
		}
	}
	l.part(gone...)
	return gone
}

// renewal is when to renew a lease that was confirmed by a request sent at a time:
// at a third of the TTL, a little earlier by chance, so that locks taken together
// are not renewed together for ever. It goes by the shortest TTL, within which each of them
// is looked at (nextCheck).
func (l *lease) renewal(sent, ttl time.Duration) time.Duration {
	third := min(ttl, l.least) / renewAt
	return sent + third - rand.N(third/10+1)
}

// attend does what the lease needs now.
func (l *lease) attend(now time.Duration, todo *chores) {
	k := l.k
	switch {
	case l.deadline() <= now:
		if l.expire(now, todo); l.place < 0 {
			return
		}
	case l.watchAt != 0 && l.watchAt <= now:
		l.watchAt = 0
		if (l.shared || l.unheard()) && k.mu.watching < k.mu.watches {
			k.mu.watching++
			l.sub = k.c.subs.make(l.name.owner, watchedKinds)
			todo.watch = append(todo.watch, l)
		}
	case !l.asking && l.renewAt <= now:
		l.renew(todo)
	}
	k.fix(l)
}

// keepFlags are those of a renewal that keeps a lock: the lease is to hang on the
// connection, and may be longer already for another lock of the same owner, which this
// client need not know.
const keepFlags = wire.FlagBind | wire.FlagExtend

// renew asks for the lease's renewal.
func (l *lease) renew(todo *chores) {
	l.again, l.capped = l.again && l.looking, unlimited // what is to be looked at anew waits for the look to end
	l.asking, l.unlooked, l.askedTTL, l.asked, l.askedAll = true, false, l.ttl, l.turns, l.joined
	l.askedGrace = l.k.c.binds.grace(l.name.owner, l.k.c.opt.grace)
	c := newCall(l)
	req := &wire.Request{
		Op: wire.OpRenew, Owner: l.name.owner, TTLMillis: millis(l.ttl), Domains: l.domains[:], Flags: keepFlags,
	}
	if planted == plantSharedLease {
		req.TTLMillis, req.Flags = millis(l.locks[len(l.locks)-1].ttl), wire.FlagBind
	}
	c.set(req)
	c.ties = false
	l.hurry(c)
	l.needs = l.uncertain()
	c.timed, c.doubtful = true, l.needs || l.looking
	todo.calls = append(todo.calls, c)
	switch {
	case l.risk != 0 && !l.looking: // of what is at risk it tells already
		l.look(todo)
	case l.needs, l.looking:
	case !l.divisible() || l.checking || l.checkAt > l.k.c.now():
	case l.asides < maxAsides:
		l.check(todo)
	default: // those have no answer, and more would not be answered either
		l.needs = true
	}
}

// hurry has a call about the lease go ahead of users' requests.
func (l *lease) hurry(c *call) { l.k.c.hurry(c, l.name.namespace) }

// land implements receiver: it takes the answer to a renewal.
func (l *lease) land(c *call, r *reply) {
	res := &r.scratch
	sent, resent := c.sent, c.resent
	err := r.decode(c, res)
	c.free()
	var todo chores
	l.k.mu.Lock()
	if on := l.sent.Swap(nil); on != nil && err != nil { // it was carried out, for all that is known
		l.bindTo(on.t, on.from)
	}
	if l.place >= 0 {
		l.asking = false
		switch {
		case err != nil:
			l.failed(err)
		case res.Status != wire.StatusOK:
			l.gone(res.Reason, &todo)
		default:
			l.confirmed(sent, r.tie, resent, &todo)
			if res.Flag {
				todo.asked = append(todo.asked, l.locks...)
			}
		}
		if l.place >= 0 {
			l.k.fix(l)
		}
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// confirmed takes note of a renewal that was first sent at a time and answered on a
// connection, maybe after it was sent on others.
func (l *lease) confirmed(sent time.Duration, t *tie, resent bool, todo *chores) {
	ttl := l.k.lasting(l.name, l.askedTTL)
	sure, now := sent+ttl-margin(ttl), l.k.c.now()
	elsewhere := resent || l.turns != l.asked
	// Whichever of the two was carried out first: it lasts for as long as both say.
	full, capped := sure, l.capped < unlimited
	sure = min(sure, l.capped)
	switch {
	case l.looking, l.needs && !l.unlooked: // a failure is over when the look is answered
		l.renewAt = l.renewal(sent, ttl)
		l.sure = min(l.sure, full)
		if l.unproved = (renewed{sure, sent, l.askedAll}); !l.looking {
			l.look(todo)
		}
	case l.unlooked: // that is to be asked again after a pause
	default:
		l.fails, l.lastFail = 0, nil
		l.renewAt = l.renewal(sent, ttl)
		// Else nothing has shortened it but what has lowered this already.
		if len(l.ties) > 1 || l.ties[0] != t {
			l.sure = min(l.sure, full)
		}
		l.counts(renewed{sure, sent, l.askedAll})
	}
	if elsewhere {
		// The answer may be that of the first time, on an earlier connection; or what has tied it to another
		// connection since, or for a lower grace, was carried out later.
		l.hang(t)
		l.renewAt = now
		return
	}
	l.ties = append(l.oneTie[:0], t)
	l.graces, l.hung, l.loose = nil, nil, 0 // what gave it a lower grace counts from now on
	l.k.stray(l, t, sent)
	if len(l.ties) == 1 && l.grace != l.askedGrace { // which it was renewed with
		l.graced(l.askedGrace)
	}
	switch {
	case len(l.ties) == 1 && l.grace < l.k.c.binds.grace(l.name.owner, l.k.c.opt.grace): // since it was asked for
		l.renewAt = now
	case !t.live, !l.unlooked && (l.again && !l.looking || capped):
		l.renewAt = now
	case len(l.hung) > 0, l.loose != 0: // of which some may be gone: they are sure for the grace alone
		l.renewAt = min(l.renewAt, sent+l.grace/renewAt)
	}
	if l.risk != 0 {
		l.renewAt = min(l.renewAt, now+askedWithin/renewAt)
	}
}

// counts takes note of until when the lease lasts, of those locks that it was seen to be the one of. A lock that was
// confirmed before leaves it what it was sure for. Without one that may be of an earlier lease, which ended with all of
// them. For each lock it counts for no longer than that one's own TTL, whatever others have: what another client of the
// owner gives back is found out by looks, and those are asked for within that time (nextCheck), and may be refused.
func (l *lease) counts(by renewed) {
	if slices.ContainsFunc(l.locks, func(lk *Lock) bool { return lk.confirmed }) {
		l.sure = max(l.sure, by.sure)
	} else {
		l.sure = by.sure
	}
	for _, lk := range l.locks {
		// What lasts longer by the request that took it goes by that.
		lk.confirmed = lk.confirmed || lk.number <= min(by.of, l.looked) && lk.sure <= l.sure
		if lk.confirmed && lk.number <= by.of {
			own := by.sent + lk.ttl - margin(lk.ttl)
			if planted == plantKeptLong {
				own = by.sure
			}
			lk.sure = max(lk.sure, min(by.sure, own))
		}
	}
	if l.bounds(); l.fresh != 0 && l.fresh < l.sure {
		l.renewAt = l.k.c.now()
	}
}

// failed takes note that a renewal was refused.
func (l *lease) failed(err error) {
	l.lastFail = err
	l.renewAt = l.k.c.now() + min(backoff(l.fails, minRenewRetry, maxRenewRetry), l.least/10)
	l.fails++
}

// gone takes note of a renewal that found no lease. Locks that have come since it was asked for may have
// been taken after it.
func (l *lease) gone(reason wire.Reason, todo *chores) {
	earlier := slices.DeleteFunc(slices.Clone(l.locks), func(lk *Lock) bool { return lk.number > l.askedAll })
	if len(earlier) == len(l.locks) {
		l.end(l.cause(), reason, nil, todo)
		return
	}
	for _, lk := range earlier {
		lk.ends(&LostError{Path: lk.paths[0].Path, Cause: l.cause(), Reason: reason}, todo)
	}
	l.part(earlier...)
	l.sure, l.renewed, l.unproved = l.fresh, renewed{}, renewed{}
	l.suspect()
}

// expire declares those of its locks lost whose time is over.
func (l *lease) expire(now time.Duration, todo *chores) {
	var gone []*Lock
	for _, lk := range l.locks {
		if l.covers(lk) <= now {
			lk.ends(&LostError{Path: lk.paths[0].Path, Cause: ErrUncertain, Last: l.lastFail}, todo)
			gone = append(gone, lk)
		}
	}
	l.part(gone...)
	switch {
	case len(l.locks) == 0:
		l.forget(todo)
	case l.sure <= now: // only later ones are left
		l.sure, l.renewAt = l.fresh, now
	}
}

// end declares the lease's locks lost.
func (l *lease) end(cause error, reason wire.Reason, last error, todo *chores) {
	for _, lk := range l.locks {
		lk.ends(&LostError{Path: lk.paths[0].Path, Cause: cause, Reason: reason, Last: last}, todo)
	}
	l.locks = nil
	l.forget(todo)
}

// cause is why a lock of it is not held any more that the server says is not.
func (l *lease) cause() error {
	if l.killed {
		return ErrKilled
	}
	return ErrExpired
}

// ends takes note of why the lock is not held any more, for the lock to be told.
func (l *Lock) ends(err *LostError, todo *chores) {
	l.lease, l.fate = nil, err
	todo.lost = append(todo.lost, l)
}

// forget stops to keep the lease.
func (l *lease) forget(todo *chores) {
	k := l.k
	k.mu.due.remove(l)
	delete(k.mu.leases, l.name)
	k.count.Add(-1)
	delete(k.mu.low, l)
	if l.sub != nil {
		k.mu.watching--
		todo.leave = append(todo.leave, l.sub)
	}
}

// watchedKinds is what a lease wants to hear of.
const watchedKinds uint64 = 1<<wire.EventKilled | 1<<wire.EventRevoke | 1<<wire.EventExpired

// subscribe begins to watch the lease.
func (l *lease) subscribe() {
	l.k.c.subs.start(l.sub, l.heard, func(err error) {
		l.k.mu.Lock()
		defer l.k.mu.Unlock()
		if l.watched = err == nil; l.place >= 0 && l.watched {
			l.recheck() // something may have happened before
			l.k.fix(l)
		}
	})
}

// unwatch takes note that its owner's events are not told any more, and since when is not known. What happened to the
// lease is asked, not for all at once, and not only once they are told again, which may never be.
func (l *lease) unwatch() {
	l.watched = false
	soon := min(l.renewAt, l.k.c.now()+rand.N(min(l.least/renewAt, askedWithin)+1))
	l.recheck()
	if !l.asking && !l.looking {
		l.renewAt = soon
	}
}

// recheck has the lease renewed now, whatever is under way.
func (l *lease) recheck() {
	if l.shared {
		l.suspect()
	} else {
		l.anew()
	}
}

// heard takes an event of the lease's owner.
func (l *lease) heard(e Event) {
	var todo chores
	l.k.mu.Lock()
	now := l.k.c.now()
	killed := e.Kind == wire.EventKilled && e.Path == ""
	if killed {
		l.k.killed(l.name.owner, e.Namespace)
	}
	switch {
	case l.place < 0 || e.Namespace != "" && e.Namespace != l.name.namespace:
	case e.Kind == wire.EventRevoke:
		todo.asked = append(todo.asked, l.locks...)
	case killed && !l.shared && now-l.granted >= watchAfter:
		l.end(ErrKilled, wire.ReasonUnspecified, nil, &todo)
	default:
		// A gap; or an end that may be that of an earlier lease of the same name, taken
		// again just before, by another client maybe; or that of a wait: the server knows. A kill is
		// told once all groups have done it, which may take long: the owner may have taken anew
		// what went. But who cannot ask does not believe in it for as long as in what nobody doubts.
		if l.suspect(); killed || e.Kind == wire.EventExpired && e.Path == "" {
			l.mayBeOver(e.Kind)
		}
		l.k.fix(l)
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// mayBeOver takes note that an end of it was told, of that kind, or of what its owner had. Who cannot ask what is left
// does not believe in it for long.
func (l *lease) mayBeOver(end wire.EventKind) {
	l.killed = l.killed || end == wire.EventKilled
	l.shorten(l.k.c.now() + min(l.least/renewAt, askedWithin))
}

// millis rounds a duration up to whole milliseconds.
func millis(d time.Duration) uint64 {
	return uint64((d + time.Millisecond - 1) / time.Millisecond)
}
