package pathlockd

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// A renewal says that the owner has a lease in the namespace, and not that this is still
// the lease that all its locks were taken under. If that ended, killed say, and the owner
// took something since, by another client maybe, it is another one, in which the earlier
// locks are not. So the server is asked what the owner holds:
//
//   - when a lock has come to a lease;
//   - when the owner was killed, or may have been: events were missed;
//   - of an owner that the program names, when its events begin to be told, and at each
//     renewal while they are not.
//
// So is it while something of the program's own is under way that may take locks back, at each renewal. The question
// goes out when the renewal is answered, as nothing says which of the two the server carries out first, and until it
// is told the renewal does not count: what had come lasts no longer than by the request that took it. Once both are
// answered they count, whatever was told meanwhile: that caps what they say (capped), and is asked for next. So
// doubts that come faster than answers neither discard an answer nor are put off. What is at risk is asked about at
// once as well. Who holds very much is told page by page, which on a long way takes longer than a lease lasts. But a
// lease ends with all that is held under it: one path of a lock that is held as it was taken says that the lease has
// lasted since, for what came to it later as well (proves). What is on the other pages is no matter of the doubt. The
// earliest lock may be on the last of them: if the first one leaves the doubt, one path of that lock is asked about
// besides (probe).
//
// A release takes a part of what is held, and leaves the lease to what else there is. Nobody is
// told of it. So where another client may share the lease, or a lock has several paths, the server
// is asked about once in a TTL as well, beside the renewals, which count.

// checkShare keeps that cheap for who holds very much: so many times as long as the last answer took nothing is asked.
// What it took is told by the quickest of its pages, for what that tells of, and they count for a second each at most:
// one that was held up says nothing of how much there is, and while nothing is asked a lock may be believed in wrongly.
const (
	checkShare = 10
	slowPage   = time.Second
	busyTTLs   = 2
)

// maxAsides is how many questions beside the renewals of a lease may have no answer. More would take the places of
// those that renewals count with.
const maxAsides = 2

// look is such a question. Who holds very much is told page by page, as renewals wait behind an answer: what
// is held all the time is on one of them.
type look struct {
	l      *lease
	aside  bool          // there is no doubt
	learns bool          // it is to tell since when a lock is held before its token is raised
	asked  time.Duration // when it was asked
	upTo   int           // number of the last lock that it is about: a later one may have missed it
	held   holds         // told so far
	after  []byte        // cursor of the page asked for
	pages  pages
	told   int           // how many pages were
	turn   time.Duration // when the page under way was asked for
	quick  time.Duration // the shortest time that a page took for each path that it told of; 0: none was told yet
	waited time.Duration // how long it waited in the client for its turns
	sent   atomic.Bool   // it is on its way, or was
	sure   *Lock         // a path of it was held under its token after asked; nil: that was not told
}

// look asks what the owner holds in the namespace, because of a doubt. A renewal that was answered before that is of
// the lease that it tells of, and counts with it. Of one that is answered later nobody knows which of the two was
// carried out first.
func (l *lease) look(todo *chores) {
	l.doubt, l.looking, l.renewed, l.unproved = false, true, l.unproved, renewed{}
	l.question(false, todo)
}

// uncertain reports whether a renewal counts only with a look that is asked for after it. So it does, too, when what is
// asked beside the renewals has no answer for a TTL, as when it is refused: in a window that is taken it may wait for
// long, and whoever gave back a part of it meanwhile, be it an operator, is told nowhere else.
func (l *lease) uncertain() bool {
	unanswered := l.checking && l.k.c.now()-l.paged > l.least
	return l.doubt || l.shared && !l.watched || l.risk != 0 || unanswered
}

// check asks so beside the renewals.
func (l *lease) check(todo *chores) {
	l.checking = true
	l.question(true, todo)
}

// learn asks since when the paths of a lock are held that has just come, and whose token is about to be raised: after
// that it does not tell it any more. What is under way was asked before it came, and need not tell of it: then that is
// asked as soon as this is answered.
func (l *lease) learn(todo *chores) {
	l.learning = true
	switch {
	case l.looking || l.checking:
	case l.asides < maxAsides:
		l.check(todo)
	default: // those have no answer: a renewal counts with this one, as with all others until they have
		l.look(todo)
	}
}

func (l *lease) question(aside bool, todo *chores) {
	q := &look{l: l, aside: aside, learns: l.learning, asked: l.k.c.now(), upTo: l.joined, held: make(holds)}
	if l.learning = false; aside {
		l.asides++
		l.paged = q.asked
	} else {
		l.asks = q
	}
	q.ask(nil, todo)
}

// divisible says that a part of what the lease stands for may go, and the lease stay.
func (l *lease) divisible() bool {
	return l.shared || len(l.locks) > 1 || len(l.locks[0].paths) > 1
}

// nextCheck is when the server is to be asked again that was asked at a time, that took so long to tell of several
// pages, and that waited so long for its turns: with the last renewal within the shortest TTL. Where many leases wait
// for turns it is later, within two of it, and leaves turns to the questions that renewals count with.
func (l *lease) nextCheck(asked, took, waited time.Duration) time.Duration {
	return asked + max(l.least-l.least/renewAt, checkShare*took, min(checkShare*waited, busyTTLs*l.least))
}

// ask asks for what comes after a cursor.
func (q *look) ask(after []byte, todo *chores) {
	q.after, q.turn = bytes.Clone(after), q.l.k.c.now()
	c := newCall(q)
	c.set(&wire.Request{
		Op: wire.OpListLocks, Owner: q.l.name.owner, Domains: q.l.domains[:], Cursor: after, Page: q.l.page,
	})
	q.l.hurry(c)
	c.timed = true
	todo.calls = append(todo.calls, c)
}

// land implements receiver.
func (q *look) land(c *call, r *reply) {
	res := &r.scratch
	sent := max(q.turn, c.sent)
	err := r.decode(c, res)
	c.free()
	var told wire.List
	if err == nil {
		told = *list(res)
	}
	q.held.addAll(told.Infos)
	l := q.l
	if n := time.Duration(len(told.Infos)); err == nil && n > 0 {
		if took := (l.k.c.now() - sent) / n; q.quick == 0 || took < q.quick {
			q.quick = took
		}
	}
	q.waited += sent - q.turn
	var todo chores
	l.k.mu.Lock()
	if l.place >= 0 {
		switch {
		case codeOf(err) == wire.ResourceExhausted && l.page != 1:
			if q.pages.less(&l.page) {
				q.ask(q.after, &todo)
			} else {
				l.lastFail = err
				q.later()
			}
		case err != nil && q.aside:
			l.asides--
			l.checking, l.doubt = false, true // the next renewal counts if there is an answer
			if q.learns {
				l.needs = l.needs || l.asking
				l.renewAt = min(l.renewAt, l.k.c.now()+minRenewRetry)
			}
		case err != nil:
			l.looking, l.asks, l.doubt, l.renewed, l.unproved, l.unlooked = false, nil, true, renewed{},
				renewed{}, l.asking
			l.failed(err)
		case !res.Done && len(told.Cursor) > 0:
			q.pages.more(&l.page)
			more := q.settles(&todo)
			if q.told == 1 {
				l.assure(q.held, q.upTo, &todo)
			}
			if more {
				if q.aside {
					l.paged = l.k.c.now()
				}
				q.ask(told.Cursor, &todo)
				q.probe(&todo)
			}
		default:
			q.seen(&todo)
		}
		if l.place >= 0 {
			if l.learning {
				l.learn(&todo)
			}
			l.k.fix(l)
		}
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// later asks for the page once more, after a pause.
func (q *look) later() {
	l := q.l
	d := q.pages.pause()
	l.k.c.spawn(func() {
		if !l.k.c.pause(d) {
			return
		}
		var todo chores
		l.k.mu.Lock()
		if l.place >= 0 {
			q.ask(q.after, &todo)
		}
		l.k.mu.Unlock()
		todo.do(l.k.c)
	})
}

// suspect takes note that the lease may be another one than its locks were taken under, and has that asked now: once
// the renewal that is under way is answered, or again if a look is under way, which may have been answered before.
// With that one a renewal counts for as long only as what nobody knows of is believed in.
func (l *lease) suspect() {
	l.needs = l.needs || l.asking
	// it is carried out after what is suspected, and tells of all
	if l.looking && !l.asks.sent.Load() && l.asks.upTo == l.joined {
		return
	}
	l.doubt = true
	if l.looking && l.unproved.sure == 0 {
		l.unproved = l.renewed
	}
	l.renewed.sure = min(l.renewed.sure, l.k.c.now()+min(l.least/renewAt, askedWithin)) // 0 stays
	if !l.asking && l.unproved.sure == 0 {
		l.anew()
	}
}

// cap has what is under way count until a time at most. What counts with a look is asked for anew after that.
func (l *lease) cap(at time.Duration) {
	l.capped = min(l.capped, at)
	l.renewed.sure, l.unproved.sure = min(l.renewed.sure, at), min(l.unproved.sure, at) // 0 stays
	l.again = l.again || l.looking
}

// anew has the lease renewed now, once more if that is under way.
func (l *lease) anew() {
	if l.asking || l.looking {
		l.again = true
	} else {
		l.renewAt = l.k.c.now()
	}
}

// seen takes note of what the owner holds: of the locks that were asked for, those that
// are not among it are lost.
func (q *look) seen(todo *chores) {
	l := q.l
	var gone []*Lock
	for _, lk := range l.locks {
		if lk.number > q.upTo { // what is told may be of before it, and of a hold of then
			continue
		}
		if path, missing := lk.missing(q.held); missing {
			lk.ends(&LostError{Path: path, Cause: l.cause()}, todo)
			gone = append(gone, lk)
		}
	}
	l.part(gone...)
	if len(l.locks) == 0 {
		l.forget(todo)
		return
	}
	q.saves()
	l.checkAt = l.nextCheck(q.asked, q.took(), q.waited)
	if q.aside {
		l.asides--
		l.checking = false
		q.lived()
		return
	}
	if l.checking && q.asked-l.paged > l.least { // what that one asks is told
		l.checking = false
	}
	q.clears(todo)
	later := func(lk *Lock) bool { return lk.capped != 0 && lk.number > q.upTo }
	if !l.looking && l.asking && slices.ContainsFunc(l.locks, later) {
		l.look(todo) // what is at risk since is not to wait for the renewal
	}
}

// took is how long it takes to tell what there is, as it was told in several pages; 0: it was told in one.
func (q *look) took() time.Duration {
	if q.told == 0 {
		return 0
	}
	return min(q.quick*time.Duration(len(q.held)), slowPage*time.Duration(q.told+1))
}

// clears takes note that the lease is the one that its locks were taken under.
func (q *look) clears(todo *chores) {
	l := q.l
	l.looking, l.asks, l.looked = false, nil, q.upTo
	l.fails, l.lastFail = 0, nil
	l.killed = l.killed && l.doubt // again, since it was asked
	q.lived()
	if l.renewed.sure != 0 {
		l.counts(l.renewed)
		l.renewed = renewed{}
	}
	switch {
	case l.unproved.sure == 0:
	case l.uncertain():
		l.look(todo)
	default: // an end since the look was asked for would have been told
		l.counts(l.unproved)
		l.unproved = renewed{}
	}
	if l.again && !l.asking && !l.looking { // beside another look that would go on so without an end
		l.renewAt = l.k.c.now()
	}
}

// saves takes note of the locks that something may take back and that it was told of as a whole, and says whether it
// was not of some of them.
func (q *look) saves() (open bool) {
	if q.l.risk == 0 {
		return false
	}
	for _, lk := range q.l.locks {
		if lk.capped == 0 || lk.number > q.upTo {
			continue
		}
		if _, missing := lk.missing(q.held); missing {
			open = true
		} else {
			q.l.saved(lk, q.asked)
		}
	}
	q.l.risks()
	return open
}

// lived takes note of when the locks that it is about were held.
func (q *look) lived() {
	for _, lk := range q.l.locks {
		if lk.number <= q.upTo && (lk.capped == 0 || lk.on(q.held)) { // else it may be gone, though the lease is not
			lk.lived = q.asked
		}
	}
}

// settles takes note of a page that others follow, and says whether these are to be asked for: if there is a doubt yet,
// or all of a lock was not told yet, or it is time for that again: the rest of it is a look beside the renewals.
func (q *look) settles(todo *chores) (more bool) {
	l := q.l
	q.told++
	if q.told&(q.told-1) != 0 { // it may go through all that is locked: not for each page
		return true
	}
	open := q.saves()
	if q.aside || !q.proves() {
		return true
	}
	q.clears(todo)
	// One that is stuck tells nothing of the other pages: this look does, then. Not if as many as may be are stuck:
	// what has no answer takes the places of those questions that the renewals count with.
	busy := l.asides >= maxAsides || l.checking && l.k.c.now()-l.paged <= l.least
	if busy || !open && l.checkAt > l.k.c.now() && !slices.ContainsFunc(l.locks, (*Lock).strange) {
		return false
	}
	q.aside, l.checking = true, true
	l.asides++
	return true
}

// probe asks after the first page whether the earliest of the locks that have a token is held under it.
func (q *look) probe(todo *chores) {
	if q.aside || q.told != 1 {
		return
	}
	var first *Lock
	for _, lk := range q.l.locks {
		if lk.number <= q.upTo && (first == nil || lk.taken < first.taken) && lk.fenced() != "" {
			first = lk
		}
	}
	if first == nil {
		return
	}
	c := newCall(&probe{q, first})
	c.set(first.assert())
	q.l.hurry(c)
	c.doubtful = true
	todo.calls = append(todo.calls, c)
}

// probe is that question. What it tells counts with the pages that come after it.
type probe struct {
	q  *look
	lk *Lock
}

// land implements receiver.
func (p *probe) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	if err != nil || res.Status != wire.StatusOK {
		return // another request of its owner may have raised the token
	}
	k := p.q.l.k
	k.mu.Lock()
	p.q.sure = p.lk
	k.mu.Unlock()
}

// fenced answers a path that the lock holds under its token, "" when there is none.
func (l *Lock) fenced() string {
	i := slices.IndexFunc(l.paths, func(p Path) bool { return p.Mode == Write && p.Permits == 0 })
	if i < 0 || l.token <= 0 {
		return ""
	}
	return l.paths[i].Path
}

// assert asks whether the lock's owner holds that path under that token.
func (l *Lock) assert() *wire.Request {
	return &wire.Request{Op: wire.OpAssertFencing, Owner: l.owner, Token: l.token, Paths: []string{l.fenced()}}
}

// strange says that nothing was told of the lock's paths so far.
func (l *Lock) strange() bool { return l.since == nil }

// proves says that what was told so far leaves no doubt of the lease: of each lock a path is told that is held as it
// was taken, or it was held when one of which that is so had been taken already: then it has been under the same
// lease.
func (q *look) proves() bool {
	since := unlimited
	if q.sure != nil {
		since = q.sure.taken
	}
	for _, lk := range q.l.locks {
		if lk.number <= q.upTo && lk.taken < since && lk.on(q.held) {
			since = lk.taken
		}
	}
	return !slices.ContainsFunc(q.l.locks, func(lk *Lock) bool {
		return lk.number <= q.upTo && lk.lived < since && lk != q.sure && !lk.on(q.held)
	})
}

// on says that one of the lock's paths is held, and surely as the lock took it. Called under the keeper's lock.
func (l *Lock) on(held holds) bool {
	for i, p := range l.paths {
		h, ok := held[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}]
		if ok && (p.Mode == Write && h.fenced && h.token == l.token || l.since != nil && l.since[i] != 0 &&
			l.since[i] == h.since) {
			return true
		}
	}
	return false
}

// bounds works out until when those locks are sure of which no renewal says anything, and until when the others are by
// their own TTLs.
func (l *lease) bounds() {
	l.fresh, l.brief = 0, 0
	for _, lk := range l.locks {
		first := &l.fresh
		if lk.confirmed {
			first = &l.brief
		}
		if *first == 0 || lk.sure < *first {
			*first = lk.sure
		}
	}
}

// holds is what an owner was told to hold: a path and its mode, and what tells a hold from an earlier one.
type holds map[wire.ReleaseRequest]heldPath

// heldPath is one of them.
type heldPath struct {
	fenced bool
	token  int64 // under which it is held, if it is fenced
	since  int64 // when the owner got it, by the wall clock of the servers in milliseconds; 0: that was not told
}

func (h holds) addAll(told []LockInfo) {
	for i := range told {
		info := &told[i]
		of := wire.ReleaseRequest{Path: strings.Clone(info.Path), Mode: info.Mode}
		h[of] = heldPath{info.HasFence, info.Fence, info.SinceUnixMillis}
	}
}

// missing answers a path of the lock that is not held, or is held anew. Called under the keeper's lock.
func (l *Lock) missing(held holds) (path string, missing bool) {
	for i, p := range l.paths {
		if h, ok := held[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}]; !ok || !l.same(i, h) {
			return p.Path, true
		}
	}
	return "", false
}

// same says that what is held on a path of the lock is what the lock took, and not what its owner took
// later, when somebody else may have had the path between. A token tells that: but a request of the owner for
// further paths raises it, and leaves since when the path is held. So that is kept from when the token was
// seen; and what has no token goes by it alone.
func (l *Lock) same(i int, h heldPath) bool {
	if l.since == nil {
		l.since = make([]int64, len(l.paths))
	}
	switch fenced := l.paths[i].Mode == Write && h.fenced; {
	case fenced && h.token == l.token:
	case l.since[i] != 0:
		return h.since == l.since[i]
	case fenced:
		return false
	}
	l.since[i] = h.since
	return true
}

// learns takes note of what is held now as the lock took it, without a word of what is not. Called under the
// keeper's lock.
func (l *Lock) learns(held holds) {
	for i, p := range l.paths {
		if h, ok := held[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}]; ok {
			l.same(i, h)
		}
	}
}

// known says that of what a lock has of some paths it was told since when that is held.
func (l *Lock) known(some func(Path) bool) bool {
	for i, p := range l.paths {
		if (l.since == nil || l.since[i] == 0) && some(p) {
			return false
		}
	}
	return true
}

// names takes note that the program itself asks for paths in the name of an owner, and says whether locks of that one
// are kept in a namespace that the first may lie in.
func (k *keeper) names(req *wire.Request) (kept bool) {
	return req.Op == wire.OpAcquire && len(req.Locks) > 0 && k.named(req.Owner, req.Locks[0].Path)
}

// named is names of the first of them. The owner may be one that the client made up, whose name nobody used until
// then (Lock.Owner): from now on a lock may go and its owner have a lease all the same.
func (k *keeper) named(owner, path string) (kept bool) {
	if k.count.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	near := k.near(owner, path)
	for _, l := range near {
		l.needs = l.needs || l.asking // what is under way may come behind that: without a look it does not count
		l.shared = true
	}
	return len(near) > 0
}

// acquaint asks since when an owner's locks are held whose tokens a request for paths is about to raise:
// after that those do not tell them any more. An error is for the caller: nothing was asked for yet.
func (c *Client) acquaint(ctx context.Context, owner string, paths []Path) error {
	k := &c.keeper
	k.mu.Lock()
	leases := k.near(owner, paths[0].Path)
	k.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	raised := on(paths)
	for _, le := range leases {
		k.mu.Lock()
		some := slices.DeleteFunc(slices.Clone(le.locks), func(lk *Lock) bool { return lk.known(raised) })
		k.mu.Unlock()
		if len(some) == 0 {
			continue
		}
		held, err := c.heldBy(ctx, owner, le.name.namespace)
		k.mu.Lock()
		for _, lk := range some { // what was not told counts as lost when it is looked at
			if lk.learns(held); lk.known(raised) {
				continue
			}
			if err != nil {
				k.mu.Unlock()
				return err
			}
		}
		k.mu.Unlock()
	}
	return nil
}

// heldBy answers what an owner holds in a namespace, as far as that is told. It asks as the keeper does, so that what
// the program asks of other logs is not before it, and goes without what has no answer for too long (unanswered.go).
// How long it waits in the client, and is refused with UNAVAILABLE, does not count: what it is asked for waits as long.
// An error is a refusal with RESOURCE_EXHAUSTED: raised now, the token would cost the owner's locks.
func (c *Client) heldBy(ctx context.Context, owner, namespace string) (holds, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req := wire.Request{Op: wire.OpListLocks, Owner: owner, Domains: []string{domainOf(namespace)},
		Page: wire.MaxDumpPage}
	held := make(holds)
	for res, err := range pagesOf(ctx, req, func(ctx context.Context, req *wire.Request) (*wire.Result, error) {
		w := newWaiter(c)
		w.share, w.raises, w.goesWithout = c.shareOf(namespace), true, cancel
		a, err := w.ask(ctx, req)
		if err != nil {
			return nil, err
		}
		return &a.result, nil
	}) {
		switch {
		case err == nil:
			held.addAll(list(res).Infos)
		case ctx.Err() == nil && codeOf(err) == wire.ResourceExhausted:
			return held, err
		}
	}
	return held, nil
}
