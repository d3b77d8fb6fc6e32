package naive

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// What anybody can see of a group: sections 6, 8, 9 and 10.

// at are the live holds on exactly one path, writes first, then by owner.
func (m *Model) at(ns, path string) (hs []nHold) {
	for _, h := range m.holds {
		if h.ns == ns && h.path == path && m.live(h.owner, ns) {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(hs, func(a, b nHold) int {
		if a.mode != b.mode {
			return int(a.mode) - int(b.mode)
		}
		return strings.Compare(a.owner, b.owner)
	})
	return hs
}

func (m *Model) inspect(ns, path string) wire.Result {
	res := wire.Result{List: new(wire.List)}
	res.Token, res.Flag = m.fence(ns, path)
	for _, h := range m.at(ns, path) {
		switch {
		case h.mode == wire.ModeRead:
			res.List.Names = append(res.List.Names, h.owner)
		case h.alg == wire.Semaphore:
			res.List.Names2 = append(res.List.Names2, h.owner)
		default:
			res.Owner = h.owner
		}
	}
	return res
}

// left is how long something surely lasts that is not over, ms: at least 1.
func (m *Model) left(deadline int64) uint64 {
	now := m.now
	if m.cfg.LogNow != nil {
		now = max(now, m.cfg.LogNow.Load())
	}
	return uint64(max(1, deadline-now-m.cfg.Cut))
}

func (m *Model) info(h nHold) wire.LockInfo {
	i := wire.LockInfo{
		Owner: h.owner, Path: h.path, Mode: h.mode, SinceUnixMillis: h.since, Algorithm: h.alg,
		ExpiresInMillis: m.left(m.lease(h.owner, h.ns).deadline),
	}
	if h.alg == wire.Semaphore {
		i.Permits = h.permits
	} else if h.mode == wire.ModeWrite {
		i.Fence, i.HasFence = m.fence(h.ns, h.path)
	}
	if h.meta != "" {
		i.Meta = []byte(h.meta)
	}
	return i
}

// describe is everything about one path.
func (m *Model) describe(ns, path string) wire.Result {
	list := new(wire.List)
	res := wire.Result{Namespace: ns, List: list}
	res.Algorithm, _ = m.algorithm(ns)
	res.Token, res.Flag = m.fence(ns, path)
	for _, h := range m.at(ns, path) {
		list.Infos = append(list.Infos, m.info(h))
	}
	for _, h := range m.holds {
		switch {
		case h.ns != ns || !m.live(h.owner, ns):
		case above(h.path, path) && h.mode == wire.ModeWrite && h.alg.Recursive():
			list.Covering = append(list.Covering, m.info(h))
		case above(path, h.path) && h.mode == wire.ModeWrite:
			list.Count2++
		case above(path, h.path):
			list.Count3++
		}
	}
	slices.SortFunc(list.Covering, func(a, b wire.LockInfo) int { return strings.Compare(a.Path, b.Path) })
	for _, w := range m.waiters {
		for _, l := range wishes(w.locks) {
			if w.ns != ns || l.Path != path {
				continue
			}
			res.Count++
			list.Waiters = append(list.Waiters, m.waiterInfo(&w, l, res.Count))
		}
	}
	return res
}

func (m *Model) waiterInfo(w *nWaiter, l wire.LockRequest, position uint64) wire.WaiterInfo {
	i := wire.WaiterInfo{
		Owner: w.owner, Path: l.Path, Mode: l.Mode, Token: w.token, SinceUnixMillis: w.since,
		ExpiresInMillis: m.left(w.deadline), Position: position, Open: w.open,
	}
	if w.alg == wire.Semaphore {
		i.Permits = l.Permits
	}
	if w.meta != "" {
		i.Meta = []byte(w.meta)
	}
	return i
}

// list answers whether an owner is alive and what it holds, by path.
func (m *Model) list(owner string, domains []string) (alive bool, locks []wire.LockInfo) {
	for _, l := range m.leases {
		if l.owner == owner && l.deadline > m.now && (len(domains) == 0 || within(l.ns, domains...)) {
			alive = true
			for _, h := range m.holds {
				if h.owner == owner && h.ns == l.ns {
					locks = append(locks, m.info(h))
				}
			}
		}
	}
	return alive, sortLocks(locks)
}

// all is every live hold at and below a path, or in a handler; "h:/" is a
// namespace of one path.
func (m *Model) all(below string) (locks []wire.LockInfo) {
	for _, h := range m.holds {
		in := below == "" || h.path == below || wire.PathHandler(h.path) == below || above(below, h.path)
		if in && m.live(h.owner, h.ns) {
			locks = append(locks, m.info(h))
		}
	}
	return sortLocks(locks)
}

func sortLocks(locks []wire.LockInfo) []wire.LockInfo {
	slices.SortFunc(locks, func(a, b wire.LockInfo) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		if a.Mode != b.Mode {
			return int(a.Mode) - int(b.Mode)
		}
		return strings.Compare(a.Owner, b.Owner)
	})
	return locks
}

func (m *Model) waiting(owner string) bool {
	return slices.ContainsFunc(m.waiters, func(w nWaiter) bool { return w.owner == owner })
}

func (m *Model) assert(owner, ns, path string, token int64) wire.Result {
	h := m.hold(owner, ns, path, wire.ModeWrite)
	fence, _ := m.fence(ns, path)
	switch {
	case h == nil || h.alg == wire.Semaphore || !m.live(owner, ns):
		return wire.Result{Status: wire.AssertFail, Path: path, Reason: wire.ReasonStaleOwner}
	case fence != token:
		return wire.Result{Status: wire.AssertFail, Path: path, Reason: wire.ReasonStaleFencingToken}
	}
	return wire.Result{}
}

// blocking says that what an owner has is still in the way for a reason.
func (m *Model) blocking(ns, path, owner string, reason wire.Reason) bool {
	for _, h := range m.at(ns, path) {
		if h.owner != owner {
			continue
		}
		reads, permit := h.mode == wire.ModeRead, h.alg == wire.Semaphore
		switch reason {
		case wire.ReasonReadLocked, wire.ReasonDescendantReadLocked:
			if reads {
				return true
			}
		case wire.ReasonSemaphoreFull:
			if permit {
				return true
			}
		case wire.ReasonQueued:
			return true
		default:
			if !reads && !permit {
				return true
			}
		}
	}
	return reason == wire.ReasonQueued && slices.ContainsFunc(m.waiters, func(w nWaiter) bool {
		return w.owner == owner && w.ns == ns &&
			slices.ContainsFunc(wishes(w.locks), func(l wire.LockRequest) bool { return l.Path == path })
	})
}

func (m *Model) edge(owner string) (blocker, path string, reason wire.Reason, ok bool) {
	for _, e := range m.edges {
		if e.owner == owner && e.deadline > m.now {
			return e.blocker, e.path, e.reason, true
		}
	}
	return "", "", 0, false
}

// ownerships is in how many namespaces an owner holds or waits for something.
func (m *Model) ownerships(owner string) int {
	var spaces []string
	for _, l := range m.leases {
		if l.owner == owner {
			spaces = append(spaces, l.ns)
		}
	}
	for _, w := range m.waiters {
		if w.owner == owner {
			spaces = append(spaces, w.ns)
		}
	}
	slices.Sort(spaces)
	return len(slices.Compact(spaces))
}
