package pathlockd

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// tie is one connection as the leases see it that hang on it.
//
// A server that sees a connection end leaves the leases that are tied to it their
// grace. The client need not see that end: a proxy, a balancer or a port-forward may
// have lost the server's side alone, long before. What it does know is that the
// connection was whole when a request on it was answered, and so when that was sent.
// Until a grace after that no lease ends for its connection; whoever wants to believe
// in one for longer asks again (lane.tend). That nobody listens any more where a
// connection led to says nothing: it may have been the proxy that went. Only a
// goodbye that says so keeps leases their TTL.
type tie struct {
	number uint64 // counts the client's connections, from 1
	lane   *lane
	as     sessionID    // what its session is called on it
	tells  bool         // its server tells what happens to leases (told.go); set before anything is sent behind hello
	proved atomic.Int64 // when the last request that was answered on it was sent (Client.now)

	// Under the keeper's lock.
	live    bool
	excused bool   // its server said that no lease ends with it
	next    *tie   // on which the lane said hello after it
	unsure  unsure // whose leases may hang on it, as what asked for that is unanswered
}

// prove takes note that what was sent on the connection at a time was answered.
func (t *tie) prove(sent time.Duration) {
	for {
		old := t.proved.Load()
		if int64(sent) <= old || t.proved.CompareAndSwap(old, int64(sent)) {
			return
		}
	}
}

// since is when the connection was whole for certain, at last.
func (t *tie) since() time.Duration { return time.Duration(t.proved.Load()) }

// until is how long a lease with a grace lasts that hangs on the connection from a time on.
func (t *tie) until(grace, from time.Duration) time.Duration {
	if planted == plantNoticed && t.live {
		return unlimited
	}
	return max(t.since(), from) + grace - margin(grace)
}

// attached is called before anything is sent on a new connection of a lane: every
// lease that hangs on one that is gone is renewed, so that it hangs on one that lives.
// (Renewals of before are asked again by the session.)
func (k *keeper) attached(t *tie) {
	k.mu.Lock()
	if !slices.Contains(k.mu.lanes, t.lane) {
		k.mu.lanes = append(k.mu.lanes, t.lane)
	}
	t.lane.tie, t.live = t, true
	now := k.c.now()
	var todo chores
	for _, le := range k.mu.due {
		le.follow(t)
		if slices.ContainsFunc(le.ties, func(t *tie) bool { return !t.live }) {
			le.renewAt = now
		}
		if !t.tells && le.sub == nil && le.watchAt == 0 {
			le.watchAt = now
		}
	}
	k.reorder()
	for _, le := range k.mu.due {
		if !le.asking && le.renewAt <= now && le.deadline() > now {
			le.renew(&todo)
		}
	}
	k.reorder()
	k.mu.Unlock()
	todo.do(k.c)
}

// follow takes note that the lease's session has said hello, or may have, on one more
// connection. From then on the end of that one counts as well, also for a lease that
// the end of the last one left its TTL.
func (l *lease) follow(t *tie) {
	for _, other := range l.ties {
		if other.lane == t.lane && other != t && (t.live || other.excused) {
			l.hang(t)
			return
		}
	}
}

// tries is called before hello is said on a connection: the server may hear it, and see the connection's end, long
// before the client knows that it came to nothing.
func (k *keeper) tries(t *tie) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := t.lane.greeted; last != nil {
		last.next = t
	}
	t.lane.greeted = t
	for _, le := range k.mu.due {
		le.follow(t)
	}
	k.reorder()
	k.rouse(0)
}

// detached is called when a connection is gone. excused says that no lease ends for
// that; unsure are the owners whose leases may hang on it all the same.
func (k *keeper) detached(t *tie, excused bool, unsure unsure) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if planted == plantNoticed {
		t.prove(k.c.now())
	}
	t.live, t.excused, t.unsure = false, excused || planted == plantDeadProxy, unsure
	for _, le := range k.mu.due {
		if le.watched && t.lane == k.c.home {
			le.unwatch()
		}
		t.strains(le)
	}
	k.reorder()
	k.rouse(0)
}

// holds says that something unanswered may have tied a lease to the connection, which
// is gone.
func (t *tie) holds(le *lease) (from time.Duration, holds bool) {
	if t.live {
		return 0, false
	}
	for of, since := range t.unsure[le.name.owner] {
		if (!holds || since < from) && reaches(of, le.name.namespace) {
			from, holds = since, true
		}
	}
	return from, holds
}

// strains has a lease hang on the connection if it holds it.
func (t *tie) strains(le *lease) {
	if from, holds := t.holds(le); holds {
		le.bindTo(t, from)
	}
}

// reaches says that what is about a path, a namespace or anywhere may tie what lies in a namespace.
func reaches(of, namespace string) bool {
	if !strings.Contains(of, ":") { // a handler stands for all its namespaces
		return of == "" || of == namespace || strings.HasPrefix(namespace, of+":")
	}
	rest, begins := strings.CutPrefix(of, namespace)
	// What goes on within a segment is another name; "/" and the bare handler end none.
	whole := rest == "" || rest[0] == '/' || rest[0] == ':' || strings.HasSuffix(namespace, "/")
	return begins && (whole || planted == plantLikeNames)
}

// sameHandler says that what is about a path, a namespace or anywhere may be about a path, whose namespace is not
// known.
func sameHandler(of, path string) bool {
	handler, _, _ := strings.Cut(of, ":")
	return of == "" || strings.HasPrefix(path, handler+":")
}

// unsure is, by owner, where the leases lie that something unanswered may have tied: paths, and namespaces, or "" for
// anywhere; and from when on it may have, 0: that is not known. Of one owner that may be as many as the server lets
// wait.
type unsure map[string]map[string]time.Duration

// add takes note of a request.
func (u *unsure) add(req *wire.Request, from time.Duration) {
	var in []string
	switch {
	case req.Op == wire.OpAcquire && len(req.Locks) > 0:
		in = []string{req.Locks[0].Path} // all are in one namespace
	case req.Op == wire.OpRenew && len(req.Domains) == 1:
		in = req.Domains
	}
	if *u == nil {
		*u = make(unsure)
	}
	if in == nil {
		in = []string{""} // anywhere
	}
	all := (*u)[req.Owner]
	if all == nil {
		all = make(map[string]time.Duration)
		(*u)[strings.Clone(req.Owner)] = all
	}
	if first, ok := all[in[0]]; ok {
		from = min(from, first)
	}
	all[strings.Clone(in[0])] = from
}

// stray hangs a lease on the connections that it may hang on although a later one confirmed it: what tied it to them is
// unanswered, and may be carried out yet. A bound owner's is tied to that of the home lane, whoever takes it; until an
// Unbind cuts that, and leaves what it hangs on beside it, later than what confirmed it was sent.
func (k *keeper) stray(le *lease, confirmed *tie, sent time.Duration) {
	for _, l := range k.mu.lanes {
		if t := l.tie; t != confirmed {
			t.strains(le)
		}
	}
	t := k.c.home.tie
	began, bound, ends := k.c.binds.since(le.name.owner)
	if bound && !slices.Contains(le.ties, t) {
		le.bindTo(t, began)
	}
	if ends {
		le.loose = sent
	}
}

// tied says of which lanes leases hang on a connection, or there are locks that are given back by the request which
// took them.
func (k *keeper) tied() map[*session]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	on := make(map[*session]bool)
	for _, le := range k.mu.due {
		for _, t := range le.ties {
			on[&t.lane.session] = true
		}
		for _, lk := range le.locks {
			on[lk.in] = true
		}
	}
	return on
}

// keeps says that there are leases to be kept.
func (k *keeper) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.mu.due) > 0
}

// keepsOn says that there are leases to be kept that hang on a connection. It looks at all that there are.
func (k *keeper) keepsOn(t *tie) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.mu.due, func(le *lease) bool {
		on := le.sent.Load()
		return on != nil && on.t == t || slices.Contains(le.ties, t)
	})
}

// leastGrace is the lowest grace that one has.
func (k *keeper) leastGrace() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	grace := k.c.opt.grace
	for le := range k.mu.low {
		grace = min(grace, le.grace)
	}
	return grace
}

// unbound takes note that an owner's leases may hang by what was sent at a time on the connections alone that they were
// tied to beside the home lane's: nobody knows which those are, as the client forgets what did not matter, and they may
// have gone by then. It is renewed to know one.
func (k *keeper) unbound(owner string, sent time.Duration) {
	now := k.c.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, le := range k.mu.leases {
		if name.owner != owner {
			continue
		}
		le.loosen(sent)
		le.renewAt = now
		k.fix(le)
	}
	for _, lk := range k.mu.asked[owner] {
		lk.curbs.add(now, sent, 0, k.c.opt.grace)
		lk.curbs.cut = true
	}
}

// widen renews an owner's leases that may have a longer grace by now.
func (k *keeper) widen(owner string) {
	grace, now := k.c.binds.grace(owner, k.c.opt.grace), k.c.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for le := range k.mu.low {
		if le.name.owner == owner && le.grace < grace {
			le.renewAt = now
			k.fix(le)
		}
	}
}

// forget is called when a lane is over.
func (k *keeper) forget(l *lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.lanes = slices.DeleteFunc(k.mu.lanes, func(other *lane) bool { return other == l })
}

// shortening is a renewal of the program's own, or a Bind, that may leave the leases of an owner
// less time than they have; or a release of its own, which may leave it without some of its locks (releasing.go). From
// when it is sent until it is answered it may be carried out, also after what takes and keeps locks: by that these last
// no longer than the renewal says.
type shortening struct {
	shorter
	k     *keeper
	owner string
	grace time.Duration // of the home lane's connection, for which a Bind ties them; 0: it ties none
	began time.Duration // when it was sent (Client.now)
	ended func(error)   // called at its end, nil: nothing; with an error when its caller has gone before
	queue time.Duration // how long what is answered with a place in the queue may be carried out after that
}

// shorter is a TTL that an owner's leases may get yet, or what may be taken from them.
type shorter struct {
	in    string        // what leases: a namespace, a path in it, or a handler; "": all that the owner has
	ttl   time.Duration // 0: it leaves that
	takes takes         // which paths of a lock it gives back; nil: none
	what  string        // says the same of takes, to tell two of them apart
	paths []Path        // those of takes, nil: they are not known
	until time.Duration // when it is over for certain (Client.now), 0: when it is answered
}

// shortens answers what a request shortens, nil for nothing.
func (k *keeper) shortens(req *wire.Request) *shortening {
	if takes := k.takesBack(req); takes != nil {
		return k.gives(req, takes)
	}
	if req.Op != wire.OpRenew || req.Flags&wire.FlagExtend != 0 {
		return nil
	}
	ttl := time.Duration(min(req.TTLMillis, wire.MaxTTLMillis)) * time.Millisecond
	s := &shortening{shorter: shorter{ttl: ttl}, k: k, owner: strings.Clone(req.Owner)}
	if len(req.Domains) == 1 {
		s.in = strings.Clone(req.Domains[0])
	}
	return s
}

// gives answers what a request gives back.
func (k *keeper) gives(req *wire.Request, takes takes) *shortening {
	s := &shortening{
		shorter: shorter{ttl: askedWithin, takes: takes, what: what(req)}, k: k, owner: strings.Clone(req.Owner),
		queue: queued(req),
	}
	switch {
	case len(req.Releases) == 1:
		s.in = strings.Clone(req.Releases[0].Path)
	case len(req.Domains) == 1:
		s.in = strings.Clone(req.Domains[0])
	}
	return s
}

// begin is called before it is sent. If it answers true it is to go in the order of the renewals
// that keep the owner's locks: there are some.
func (s *shortening) begin() (kept bool) {
	if s.ttl > 0 {
		s.k.mu.Lock()
		if s.k.mu.shorter == nil {
			s.k.mu.shorter = make(map[string][]*shorter)
		}
		s.k.mu.shorter[s.owner] = append(s.k.mu.shorter[s.owner], &s.shorter)
		s.k.mu.Unlock()
	}
	s.began = s.k.c.now()
	kept = s.k.curb(s.owner, &s.shorter, s.grace, s.began)
	if s.takes != nil {
		s.k.doubts(s.owner, &s.shorter, false)
		return false // it goes in the order of what the program asks for
	}
	return kept
}

// end is called when it is over: what is answered by now may have come before it. An error may leave it open whether
// it has come to an end in the cluster, and what is in the queue is to be carried out yet. Then it counts for as long
// as that may be. told is what ended is called with.
func (s *shortening) end(with ending, told error) {
	s.k.curb(s.owner, &s.shorter, s.grace, s.began)
	if s.takes != nil {
		s.k.doubts(s.owner, &s.shorter, true)
	}
	if s.ended != nil {
		s.ended(told)
	}
	if s.ttl <= 0 {
		return
	}
	late := s.k.late(with, s.queue)
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.k.lapse(s.owner, &s.shorter)
	if late > 0 {
		s.k.linger(s.owner, &s.shorter, late)
	}
}

// late is for how long what has ended so may be carried out yet.
func (k *keeper) late(with ending, queue time.Duration) (late time.Duration) {
	if with.queue {
		late = queue
	}
	if with.err != nil && !untouched(with.err) {
		late = k.c.home.session.repeats() + queue // its log may take it at last, and put it into the queue
	}
	return late
}

// maybe says that it may be about the lease that a lock will have which is asked for.
func (s *shorter) maybe(lk *Lock) bool {
	return lk.maybe(s.in) && (s.takes == nil || lk.meets(func(p Path) bool { return s.takes(lk, p) }))
}

// lapse takes out what shortens leases no more.
func (k *keeper) lapse(owner string, one *shorter) {
	all := k.mu.shorter[owner]
	i := slices.Index(all, one)
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(k.mu.shorter, owner)
		return
	}
	k.mu.shorter[owner] = all
}

// lingers is how many different things of one owner that may take locks back are told apart when nobody answers them
// any more. What comes beyond counts for all that the owner has.
const lingers = 64

// mostLingering is how many there are of all owners; of what comes beyond the hash of the owner is kept alone.
const mostLingering = 4096

// everything is what may take any lock back.
func everything(*Lock, Path) bool { return true }

// linger has leases count as shortened for some more time by what nobody answers any more.
func (k *keeper) linger(owner string, one *shorter, late time.Duration) {
	until := k.c.now() + late
	all := k.mu.shorter[owner]
	if one.takes != nil && len(all) >= lingers {
		one.in, one.takes, one.what, one.paths = "", everything, "*", nil
	}
	same := func(s *shorter) bool { return s.until > 0 && s.ttl == one.ttl && s.in == one.in && s.what == one.what }
	if i := slices.IndexFunc(all, same); i >= 0 {
		all[i].until = max(all[i].until, until) // and the one before sees to it
		return
	}
	if one.takes != nil && k.mu.lingering >= mostLingering { // owners without end: what one may lose others may, too
		later(&k.givenBy(owner).late, until)
		return
	}
	if k.mu.shorter == nil {
		k.mu.shorter = make(map[string][]*shorter)
	}
	one.until = until
	k.mu.shorter[owner] = append(all, one)
	k.mu.lingering++
	var look func()
	look = func() {
		var todo chores
		defer func() { todo.do(k.c) }()
		k.mu.Lock()
		defer k.mu.Unlock()
		if left := one.until - k.c.now(); left > 0 {
			time.AfterFunc(left, look)
			return
		}
		k.lowers(owner, one, 0, k.c.now()) // what is answered from now on may have come before it
		k.lapse(owner, one)
		k.mu.lingering--
		if one.takes != nil {
			k.doubt(owner, one, true, &todo)
		}
	}
	time.AfterFunc(late, look)
}

// lasting is for how long a lease lasts for certain that was taken or renewed for a ttl.
func (k *keeper) lasting(name leaseName, ttl time.Duration) time.Duration {
	for _, other := range k.mu.shorter[name.owner] {
		if other.takes == nil && reaches(other.in, name.namespace) {
			ttl = min(ttl, other.ttl)
		}
	}
	return ttl
}

// lasts is lasting for a lock that is asked for.
func (k *keeper) lasts(lk *Lock) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	ttl := lk.ttl
	for _, other := range k.mu.shorter[lk.owner] {
		if other.takes == nil && lk.maybe(other.in) {
			ttl = min(ttl, other.ttl)
		}
	}
	return ttl
}

// curb lowers what is believed of an owner's leases, of those that it is about, to a ttl from now on, and to a grace
// of the home lane's connection too, by what was sent at a time; 0 leaves them; and likewise of those that locks will
// have which are asked for. It answers whether there are any.
func (k *keeper) curb(owner string, by *shorter, grace, sent time.Duration) (kept bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lowers(owner, by, grace, sent)
}

// lowers is curb. The caller has the keeper's lock.
func (k *keeper) lowers(owner string, by *shorter, grace, sent time.Duration) (kept bool) {
	now, ttl := k.c.now(), by.ttl
	var leases []*lease
	if by.takes == nil { // else they stay, for what else their owner holds (doubt)
		leases = k.leasesOf(owner, nil)
	}
	for _, le := range leases {
		if !reaches(by.in, le.name.namespace) {
			continue
		}
		kept = true
		if grace > 0 || ttl <= 0 {
			le.turns++
		}
		if ttl > 0 {
			le.capped = min(le.capped, sent+ttl-margin(ttl))
			le.shorten(now + ttl - margin(ttl))
			le.renewAt = min(le.renewAt, now+ttl/renewAt)
		}
		if grace > 0 {
			le.curb(grace, sent, k.c.home.tie)
		}
		k.fix(le)
	}
	for _, lk := range k.mu.asked[owner] {
		if !by.maybe(lk) {
			continue
		}
		kept = true
		lk.curbs.add(now, sent, ttl, grace)
	}
	return kept
}

// curbs is what may have shortened the lease of a lock while that was asked for.
type curbs struct {
	at    time.Duration // the last of them; 0: there is none
	sure  time.Duration // until when it is by the shortest, counted from when that was sent
	least time.Duration // the shortest TTL
	grace time.Duration // the lowest
	of    string        // the namespace that it lies in; "": that is not known
	cut   bool          // an Unbind may have left it what it hangs on beside the home lane's connection
}

func (s *curbs) add(now, sent, ttl, grace time.Duration) {
	if s.at == 0 {
		s.sure, s.least, s.grace = unlimited, unlimited, unlimited
	}
	s.at = now
	if ttl > 0 {
		s.sure, s.least = min(s.sure, sent+ttl-margin(ttl)), min(s.least, ttl)
	}
	if grace > 0 {
		s.grace = min(s.grace, grace)
	}
}

// until is until when a lease lasts for certain that was taken or renewed by what was sent at a time: what was
// carried out before that has not shortened it.
func (s *curbs) until(sent time.Duration) time.Duration {
	if s.least == unlimited {
		return unlimited
	}
	return max(s.sure, sent+s.least-margin(s.least))
}

// maybe says that what is about a path, a namespace or anywhere may be about the lease that a lock will have which is
// asked for.
func (l *Lock) maybe(of string) bool {
	if l.curbs.of != "" && planted != plantCurbedAfar {
		return reaches(of, l.curbs.of)
	}
	return sameHandler(of, l.paths[0].Path)
}

// uncurb is called before the lease of a lock that is asked for is renewed in a namespace, or the lock is asked for
// anew, in one that is not known (""): what is over by then, that makes good. What is under way shortens it again when
// it is answered.
func (k *keeper) uncurb(lk *Lock, namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	lk.curbs = curbs{of: namespace}
}

// unlimited is longer than anything lasts.
const unlimited time.Duration = math.MaxInt64

// later says that some may have come after what took or renewed the lease.
func (s *curbs) later(by *answer) bool { return s.at != 0 && by.sent <= s.at }

// expect takes note that a lock is asked for whose owner the program may name elsewhere
// too, until expected.
func (k *keeper) expect(lk *Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.givenBy(lk.owner).kept.Store(true)
	if k.mu.asked == nil {
		k.mu.asked = make(map[string][]*Lock)
	}
	k.mu.asked[lk.owner] = append(k.mu.asked[lk.owner], lk)
}

func (k *keeper) expected(lk *Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.mu.asked[lk.owner]
	i := slices.Index(all, lk)
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(k.mu.asked, lk.owner)
		return
	}
	k.mu.asked[lk.owner] = all
}

// errCrossed says that a lock may be given back already by another one of its owner.
var errCrossed = errors.New("pathlockd: another lock of its owner gives the path back")

// cross takes note that a lock is about to give its paths back: locks that are asked for on them are not
// held by what was asked so far.
func (k *keeper) cross(lk *Lock) {
	if len(k.mu.asked[lk.owner]) == 0 {
		return
	}
	some := on(lk.paths)
	k.crosses(lk.owner, func(_ *Lock, p Path) bool { return some(p) })
}

// crosses is cross of some paths of those locks.
func (k *keeper) crosses(owner string, some takes) {
	for _, other := range k.mu.asked[owner] {
		if other.meets(func(p Path) bool { return some(other, p) }) {
			other.crossed = true
			other.untold = other.untold || other.meets(func(p Path) bool {
				return some(other, p) && (p.Mode == Read || p.Permits > 0)
			})
		}
	}
}

// meets says that a lock has one of some paths.
func (l *Lock) meets(some func(Path) bool) bool { return slices.ContainsFunc(l.paths, some) }

// on says of a path, in its mode, whether it is one of some. There may be 65 536, on either side.
func on(paths []Path) func(Path) bool {
	const few = 8
	if len(paths) <= few {
		return func(p Path) bool {
			return slices.ContainsFunc(paths, func(q Path) bool { return p.Path == q.Path && p.Mode == q.Mode })
		}
	}
	all := make(map[wire.ReleaseRequest]bool, len(paths))
	for _, p := range paths {
		all[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}] = true
	}
	return func(p Path) bool { return all[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}] }
}

// near answers an owner's leases in the namespaces that a path may lie in: each is one of those that it
// begins with. The caller has the keeper's lock.
func (k *keeper) near(owner, path string) (all []*lease) {
	note := func(namespace string) {
		if l := k.mu.leases[leaseName{owner, namespace}]; l != nil {
			all = append(all, l)
		}
	}
	for i := range path {
		if path[i] == ':' || path[i] == '/' {
			note(path[:i])
			note(path[:i+1])
		}
	}
	note(path)
	return all
}

// uncross says that a lock's paths may have been given back since the last time.
func (k *keeper) uncross(lk *Lock) (was, untold bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, untold, lk.crossed, lk.untold = lk.crossed, lk.untold, false, false
	return was, untold
}

// curbed says that the lease of a lock may have been shortened since it was taken.
func (k *keeper) curbed(lk *Lock, by *answer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return lk.curbs.later(by)
}
