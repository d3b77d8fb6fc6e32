package pathlockd

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What a program gives back by requests of its own may be what locks of the client hold for the same owner. While such
// a request is under way these are not believed in for long, and once it is answered the server is asked what is left.

// takes says of a path of a lock that it may be given back.
type takes func(*Lock, Path) bool

// givesBack says that a request gives something back.
func givesBack(req *wire.Request) bool {
	switch req.Op {
	case wire.OpReleaseAll, wire.OpForceRelease:
		return true
	case wire.OpAcquire, wire.OpRelease:
		return len(req.Releases) > 0
	}
	return false
}

// takenBack is a request that gives something back, as far as that says what, in memory of its own.
func takenBack(req *wire.Request) *wire.Request {
	own := &wire.Request{Op: req.Op, Owner: strings.Clone(req.Owner)}
	for _, r := range req.Releases {
		own.Releases = append(own.Releases, wire.ReleaseRequest{Path: strings.Clone(r.Path), Mode: r.Mode})
	}
	for _, of := range req.Domains {
		own.Domains = append(own.Domains, strings.Clone(of))
	}
	return own
}

// what says what a request gives back, to tell it from others.
func what(req *wire.Request) string {
	var b strings.Builder
	b.WriteByte(byte(req.Op))
	for _, r := range req.Releases {
		b.WriteString(r.Path)
		b.WriteByte(byte(r.Mode))
	}
	for _, of := range req.Domains {
		b.WriteString(of)
		b.WriteByte(0)
	}
	return b.String()
}

// queued is for how long a request may be carried out that is answered with a place in the queue; 0: it is not.
func queued(req *wire.Request) time.Duration {
	if req.Op != wire.OpAcquire || req.Flags&wire.FlagNoQueue != 0 {
		return 0
	}
	most := queueTime(req)
	return most + most/queueShare + queueSlack
}

// A place in the queue lasts by the clock of its log, which stands while that has no leader or is slow: what may be
// given back by one counts for so much longer, and for one part in queueShare of it.
const (
	queueSlack = 10 * time.Second
	queueShare = 100
)

// foresees is called before a request is sent. It answers what that shortens; or, if it gives something back and nobody
// has a lock yet that this might be, or asks for one, what counts it until it is over: a lock may come meanwhile.
func (k *keeper) foresees(req *wire.Request) (*shortening, *given) {
	if !givesBack(req) {
		return k.shortens(req), nil
	}
	if planted == plantGivenBack {
		return nil, nil
	}
	if req.Op == wire.OpAcquire { // which may wait, or keep a place in the queue, for long
		return k.givesPaths(req), nil
	}
	g := k.givenBy(req.Owner)
	g.open.Add(1)
	if s := k.shortens(req); s != nil {
		g.open.Add(-1)
		return s, nil
	}
	if planted == plantGivenBefore {
		g.open.Add(-1)
		return nil, nil
	}
	return nil, g
}

// given counts what the program gives back by requests of its own that nobody had a lock of when these were sent, of
// the owners whose names have one hash. It costs such a request no memory.
type given struct {
	k    *keeper
	open atomic.Int32 // under way
	last atomic.Int64 // when the last one was over (Client.now), 0: none was
	late atomic.Int64 // until when one may be carried out of which nobody knows what became, likewise
	kept atomic.Bool  // a lock was asked for in the name of such an owner
}

// givenBuckets is how many of them a client has: so many that owners which are about their locks at once are nearly
// always told apart.
const givenBuckets = 4096

var givenSeed = maphash.MakeSeed()

// givenBy is what counts an owner's.
func (k *keeper) givenBy(owner string) *given {
	all := k.given.Load()
	if all == nil {
		all = new([givenBuckets]given)
		for i := range all {
			all[i].k = k
		}
		if !k.given.CompareAndSwap(nil, all) {
			all = k.given.Load()
		}
	}
	return &all[maphash.String(givenSeed, owner)%givenBuckets]
}

// over is called when one of them is over: a request, or what a call asks if that is nil, which is decoded when it is
// wanted alone. An error may leave it open whether it has come to an end in the cluster.
func (g *given) over(c *call, req *wire.Request, with ending) {
	now := g.k.c.now()
	if late := g.k.late(with, 0); late > 0 {
		later(&g.late, now+late)
	}
	later(&g.last, now)
	g.open.Add(-1)
	if !g.kept.Load() {
		return
	}
	if req == nil {
		req = c.request()
	}
	if s := g.k.shortens(req); s != nil { // a lock came meanwhile
		s.begin()
		s.end(with, nil)
	}
}

// later raises a time to a later one.
func later(at *atomic.Int64, to time.Duration) {
	for old := at.Load(); int64(to) > old && !at.CompareAndSwap(old, int64(to)); old = at.Load() {
	}
}

// meets says that what was asked for at a time may be taken back by one of them, or may have been.
func (g *given) meets(sent time.Duration) bool {
	last, late := g.last.Load(), g.late.Load()
	return g.open.Load() > 0 || last > 0 && int64(sent) <= last || late > 0 && int64(sent) <= late
}

// takes says that what is held may be taken back by one of them, or may have been since the server was asked for what
// is not believed in for longer.
func (g *given) takes(now time.Duration) bool {
	late := g.late.Load()
	return g.open.Load() > 0 || late > 0 && now <= time.Duration(late)+askedWithin
}

// mayGo says that a lock may be taken back by what is under way, or may be carried out yet.
func (k *keeper) mayGo(lk *Lock, now time.Duration) bool {
	// also of an owner that the client made up: the program may name it since (Lock.Owner)
	if k.givenBy(lk.owner).takes(now) {
		return true
	}
	return slices.ContainsFunc(k.mu.shorter[lk.owner], func(s *shorter) bool { return s.takes != nil && s.maybe(lk) })
}

// risky says that a lock that is asked for may be taken back, or may have been since it was, by something that was sent
// before: so it is to be seen before it is handed out, as it counts for two seconds at most from then.
func (k *keeper) risky(lk *Lock, sent time.Duration) bool {
	if lk.alone { // until it is handed out nobody knows its owner's name
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.givenBy(lk.owner).meets(sent) || k.mayGo(lk, k.c.now())
}

// held takes note that a lock is kept from now on that a request took, or confirmed, which was sent at a time, behind
// which it was seen to be held at another. What was sent before anybody asked for it may take it back, or have. Of what
// is under way the end tells. So it is called for owners alone that the program names: the name of one that the client
// made up nobody knows before its lock is handed out.
func (l *lease) held(lk *Lock, sent, seen time.Duration) {
	now := l.k.c.now()
	if l.k.mayGo(lk, now) || l.k.givenBy(lk.owner).meets(sent) {
		l.endangers(lk, max(sent, seen), nil)
		l.suspect()
	}
}

// endangers takes note that a lock may be taken back that was held at a time: it counts for no longer than what nobody
// knows of is believed in.
// some says which of its paths may be taken back; nil: that is not known.
func (l *lease) endangers(lk *Lock, held time.Duration, some takes) {
	lk.mayLose(some)
	lk.risked = l.k.c.now()
	if at := held + askedWithin - margin(askedWithin); lk.capped == 0 || at < lk.capped {
		lk.capped = at
	}
	l.risks()
	l.renewAt = min(l.renewAt, lk.risked+askedWithin/renewAt)
}

// mayLose takes note of which paths of a lock may be taken back beside those that may already; nil: any.
func (l *Lock) mayLose(some takes) {
	switch {
	case some == nil || len(l.paths) == 1:
		l.risky = nil
		return
	case l.capped == 0:
		l.risky = make([]bool, len(l.paths))
	case l.risky == nil:
		return
	}
	for i, p := range l.paths {
		l.risky[i] = l.risky[i] || some(l, p)
	}
}

// saved takes note that a lock was seen to be held, as far as something may take it back, by what was asked at a time.
func (l *lease) saved(lk *Lock, asked time.Duration) {
	if lk.capped == 0 {
		return
	}
	if lk.risked < asked && !l.k.mayGo(lk, l.k.c.now()) {
		lk.capped, lk.risky = 0, nil
	} else {
		lk.capped = max(lk.capped, asked+askedWithin-margin(askedWithin))
	}
}

// risks works out until when those locks count that something may take back.
func (l *lease) risks() {
	l.risk = 0
	for _, lk := range l.locks {
		if lk.capped != 0 && (l.risk == 0 || lk.capped < l.risk) {
			l.risk = lk.capped
		}
	}
}

// takesBack answers what a request of the program's gives back that locks may stand for; nil: nothing.
func (k *keeper) takesBack(req *wire.Request) takes {
	switch req.Op {
	case wire.OpReleaseAll, wire.OpForceRelease:
		return k.takesAll(req)
	case wire.OpRelease:
		return k.takesSome(req)
	}
	return nil
}

// takesAll is takesBack of everything, or of everything in domains.
func (k *keeper) takesAll(req *wire.Request) takes {
	k.mu.Lock()
	defer k.mu.Unlock()
	some := len(k.mu.asked[req.Owner]) > 0
	for name := range k.mu.leases {
		some = some || name.owner == req.Owner
	}
	if !some {
		return nil
	}
	var in []string
	if req.Op == wire.OpReleaseAll {
		in = slices.Clone(req.Domains)
	}
	for i := range in {
		in[i] = strings.Clone(in[i])
	}
	return func(lk *Lock, _ Path) bool {
		if lk.lease != nil {
			return len(in) == 0 || slices.ContainsFunc(in, func(of string) bool { return reaches(of, lk.namespace) })
		}
		return len(in) == 0 || slices.ContainsFunc(in, lk.maybe)
	}
}

// takesSome is takesBack of paths.
func (k *keeper) takesSome(req *wire.Request) takes {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := len(k.mu.asked[req.Owner]) > 0
	if !asked && len(k.mu.leases) == 0 {
		return nil
	}
	var near []*lease
	for i := range req.Releases {
		for _, le := range k.near(req.Owner, req.Releases[i].Path) {
			if !slices.Contains(near, le) {
				near = append(near, le)
			}
		}
	}
	if !asked && len(near) == 0 {
		return nil
	}
	some, _ := takesPaths(req)
	if !asked && !slices.ContainsFunc(near, func(le *lease) bool { return le.has(some) }) {
		return nil
	}
	return some
}

// takesPaths is takesSome whoever has a lock of them, or asks for one.
func takesPaths(req *wire.Request) (takes, []Path) {
	paths := make([]Path, len(req.Releases))
	for i, r := range req.Releases {
		paths[i] = Path{Path: strings.Clone(r.Path), Mode: r.Mode}
	}
	given := on(paths)
	return func(_ *Lock, p Path) bool { return given(p) }, paths
}

// givesPaths answers what a request gives back whoever has a lock of it.
func (k *keeper) givesPaths(req *wire.Request) *shortening {
	takes, paths := takesPaths(req)
	s := k.gives(req, takes)
	s.paths = paths
	return s
}

// has says that one of its locks has one of some paths.
func (l *lease) has(some takes) bool {
	return slices.ContainsFunc(l.locks, func(lk *Lock) bool {
		return lk.meets(func(p Path) bool { return some(lk, p) })
	})
}

// doubts takes note that paths of an owner's locks may be given back from now on, or may have been by now: then the
// server is asked.
func (k *keeper) doubts(owner string, by *shorter, over bool) {
	var todo chores
	k.mu.Lock()
	k.doubt(owner, by, over, &todo)
	k.mu.Unlock()
	todo.do(k.c)
}

// doubt is doubts. The caller has the keeper's lock.
func (k *keeper) doubt(owner string, by *shorter, over bool, todo *chores) {
	k.crosses(owner, by.takes)
	now := k.c.now()
	for _, le := range k.leasesOf(owner, by.paths) {
		if !le.has(by.takes) {
			continue
		}
		for _, lk := range le.locks {
			if lk.meets(func(p Path) bool { return by.takes(lk, p) }) {
				le.endangers(lk, now, by.takes)
			}
		}
		switch le.doubt = true; {
		case le.asking && !le.looking:
			le.needs = true
			le.look(todo)
		case over:
			le.anew()
		}
		k.fix(le)
	}
}

// fewPaths is for how many paths leases are looked for path by path, and not all gone through.
const fewPaths = 64

// leasesOf answers an owner's leases, or those alone that some paths may lie in; nil for all.
func (k *keeper) leasesOf(owner string, paths []Path) (all []*lease) {
	if paths != nil && len(paths) <= fewPaths {
		for _, p := range paths {
			for _, le := range k.near(owner, p.Path) {
				if !slices.Contains(all, le) {
					all = append(all, le)
				}
			}
		}
		return all
	}
	for name, le := range k.mu.leases {
		if name.owner == owner {
			all = append(all, le)
		}
	}
	return all
}
