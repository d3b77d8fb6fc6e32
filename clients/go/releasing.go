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
	return queueTime(req)
}

// foresees is called before a request is sent. It answers what that shortens; or, if it gives something back and nobody
// has a lock yet that this might be, or asks for one, what counts it until it is over: a lock may come meanwhile.
func (k *keeper) foresees(req *wire.Request) (*shortening, *given) {
	if !givesBack(req) {
		return k.shortens(req), nil
	}
	if planted == plantGivenBack {
		return nil, nil
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

// given counts what the program gives back by requests of its own that nobody had a lock of when these were sent, of the
// owners whose names have one hash. It costs such a request no memory.
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
func (g *given) over(c *call, req *wire.Request, err error, inQueue bool) {
	unsettled, kept := inQueue || err != nil && !untouched(err), g.kept.Load()
	if req == nil && (unsettled || kept) {
		req = c.request()
	}
	now := g.k.c.now()
	if unsettled {
		later(&g.late, now+g.k.late(err, inQueue, queued(req)))
	}
	later(&g.last, now)
	g.open.Add(-1)
	if !kept && !g.kept.Load() {
		return
	}
	if req == nil { // a lock was asked for meanwhile
		req = c.request()
	}
	if s := g.k.shortens(req); s != nil { // a lock came meanwhile
		s.begin()
		s.end(err, nil, inQueue)
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

// takes says that what is held may be taken back by one of them, or may have been since the server was last asked for what
// was not believed in for longer.
func (g *given) takes(now time.Duration) bool {
	late := g.late.Load()
	return g.open.Load() > 0 || late > 0 && now <= time.Duration(late)+askedWithin
}

// taken has a lock that is kept from now on, as a request says that was sent at a time, believed in for short only as far
// as something may take it back that was sent before anybody asked for it. Of what is under way the end tells.
func (k *keeper) taken(l *lease, lk *Lock, sent time.Duration) {
	if k.givenBy(lk.owner).meets(sent) {
		l.suspect()
		l.shorten(k.c.now() + min(l.least/renewAt, askedWithin))
	}
}

// takesBack answers what a request of the program's gives back that locks may stand for; nil: nothing.
func (k *keeper) takesBack(req *wire.Request) takes {
	switch req.Op {
	case wire.OpReleaseAll, wire.OpForceRelease:
		return k.takesAll(req)
	case wire.OpAcquire, wire.OpRelease:
		if len(req.Releases) > 0 {
			return k.takesSome(req)
		}
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
	paths := make([]Path, len(req.Releases))
	for i, r := range req.Releases {
		paths[i] = Path{Path: strings.Clone(r.Path), Mode: r.Mode}
	}
	given := on(paths)
	some := func(_ *Lock, p Path) bool { return given(p) }
	if !asked && !slices.ContainsFunc(near, func(le *lease) bool { return le.has(some) }) {
		return nil
	}
	return some
}

// has says that one of its locks has one of some paths.
func (l *lease) has(some takes) bool {
	return slices.ContainsFunc(l.locks, func(lk *Lock) bool {
		return lk.meets(func(p Path) bool { return some(lk, p) })
	})
}

// doubts takes note that paths of an owner's locks may be given back from now on, or may have been by now: then the
// server is asked.
func (k *keeper) doubts(owner string, some takes, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crosses(owner, some)
	for name, le := range k.mu.leases {
		if name.owner != owner || !le.has(some) {
			continue
		}
		if le.doubt = true; over {
			le.anew()
			k.fix(le)
		}
	}
}
