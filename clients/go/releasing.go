package pathlockd

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// What a program gives back by requests of its own may be what locks of the client hold for the same owner. While such
// a request is under way these are not believed in for long, and once it is answered the server is asked what is left.

// takes says of a path of a lock that it may be given back.
type takes func(*Lock, Path) bool

// takesBack answers what a request of the program's gives back that locks may stand for; nil: nothing.
func (k *keeper) takesBack(req *wire.Request) takes {
	switch req.Op {
	case wire.OpReleaseAll, wire.OpForceRelease:
		return k.takesAll(req)
	case wire.OpAcquire, wire.OpRelease:
		if len(req.Releases) > 0 && req.Flags&wire.FlagWait == 0 {
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
		if le.suspect(); over {
			le.turns++
			le.again, le.renewAt = le.asking, k.c.now()
			k.fix(le)
		}
	}
}
