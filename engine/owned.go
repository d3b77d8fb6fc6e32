package engine

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// List answers whether the owner is alive, and what it holds, in the order of Owned.
func (v *View) List(owner string, domains []string) (alive bool, locks []wire.LockInfo) {
	return v.Alive(owner, domains), v.Owned(owner, domains, Owned{}, 0)
}

// Owned is the place of a lock among those of its owner: they are in the order of their paths,
// and on one path in that of their modes.
type Owned struct {
	Path string // "": before the first
	Mode wire.Mode
}

// Compare is negative when a lock comes before another one.
func (o Owned) Compare(other Owned) int {
	if c := strings.Compare(o.Path, other.Path); c != 0 {
		return c
	}
	return int(o.Mode) - int(other.Mode)
}

// PlaceOf is a lock's place.
func PlaceOf(i *wire.LockInfo) Owned { return Owned{i.Path, i.Mode} }

// Owned answers what an owner holds after a place, in order: at most max locks, or all when that
// is 0. It costs what it answers, and not what comes before or after.
//
// A namespace is the beginning of its paths. So what comes after a path lies in the namespaces that come
// after it, or not before, in byte order; and in those that are a beginning of it.
func (v *View) Owned(owner string, domains []string, after Owned, max int) (locks []wire.LockInfo) {
	add := func(key string, l *lease) {
		if _, ok := v.alive(key, l); ok && inDomains(l.ns, domains) {
			locks = v.ownedIn(l, after, max, locks)
		}
	}
	eachBeginning(after.Path, func(ns string) {
		key := string(appendLeaseKey(nil, owner, ns))
		add(key, v.leases.Get(key))
	})
	of := string(appendLeaseKey(nil, owner, ""))
	for from := of + after.Path; ; {
		key, l, ok := v.leases.Ceiling(of, from, 0)
		if !ok {
			break
		}
		if max > 0 && len(locks) >= max {
			if locks = inOrder(locks, max); l.ns > locks[max-1].Path {
				break
			}
		}
		add(key, l)
		from = key + "\x00"
	}
	return inOrder(locks, max)
}

// ownedIn appends what comes after a place of what a lease holds, at most max locks.
func (v *View) ownedIn(l *lease, after Owned, max int, locks []wire.LockInfo) []wire.LockInfo {
	from, most := "", len(locks)+max
	if after.Path != "" {
		from = string(appendKey(nil, l.ns, after.Path))
	}
	l.holds.AscendFrom("", liveHolds, from, func(hkey string, _ *struct{}) bool {
		key := hkey
		if n := len(hkey); n > 2 && hkey[n-2] == nul {
			key += l.owner
		}
		if i, ok := v.info(key, v.holds.Get(key)); ok && PlaceOf(&i).Compare(after) > 0 {
			locks = append(locks, i)
		}
		return max == 0 || len(locks) < most
	})
	return locks
}

// inOrder sorts locks, and leaves the first max of them, all when that is 0. Those of each
// namespace are in order already; one that is nested lies between those of its parent.
func inOrder(locks []wire.LockInfo, max int) []wire.LockInfo {
	slices.SortStableFunc(locks, func(a, b wire.LockInfo) int { return PlaceOf(&a).Compare(PlaceOf(&b)) })
	if max > 0 && len(locks) > max {
		locks = locks[:max]
	}
	return locks
}

// eachBeginning calls f with the namespaces that come before a path in byte order and may have
// paths that come after it: those that it begins with, byte by byte, and whose own paths do not
// go on below it. "h:/job" is one for "h:/job-2/x", as '-' comes before '/'.
func eachBeginning(path string, f func(ns string)) {
	colon := strings.IndexByte(path, ':')
	if colon < 1 {
		return
	}
	for at := 1; at < len(path); at++ {
		switch next := path[at]; {
		case at <= colon && next <= ':': // a bare handler goes on with it
		case at == colon+2: // the root of one goes on with anything
		case at > colon+2 && next <= slash:
		default:
			continue
		}
		f(path[:at])
	}
}
