package engine

import (
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// View is a state as it was at one instant. It never changes, costs nothing to
// take, and may be used by any number of goroutines.
type View struct {
	cfg      Config
	fences   Fences
	now      int64
	wall     int64
	counter  int64
	seq      uint64
	version  uint64
	attempt  uint64
	mark     uint32
	written  uint32 // mark up to which all was on disk when the view was made
	floors   []floor
	frozen   []freezing
	holds    trie.Tree[hold]
	leases   trie.Tree[lease]
	queue    trie.Tree[place]
	waiters  trie.Tree[waiter]
	edges    trie.Tree[edge]
	policies trie.Tree[policy]
	kept     trie.Tree[kept]
	marks    trie.Tree[int64]

	departing departures

	tombs trie.Tree[struct{}]
	dying trie.Tree[struct{}]
}

// View answers the state as it is now.
func (s *State) View() *View {
	v := &View{
		cfg: s.cfg, fences: s.fences, now: s.now, wall: s.wall, counter: s.counter, seq: s.seq,
		version: s.version, attempt: s.attempt, mark: s.w.Mark(), written: s.written, floors: s.floors,
		frozen: s.frozen,
		holds:  s.holds, leases: s.leases, queue: s.queue, waiters: s.waiters, edges: s.edges,
		policies: s.policies, kept: s.kept, marks: s.marks, departing: s.departing, tombs: s.tombs, dying: s.dying,
	}
	s.w.Freeze()
	return v
}

// Now is the lease clock of the view, in ms.
func (v *View) Now() int64 { return v.now }

// left is how long something surely lasts that is not over, ms: at least 1.
func (v *View) left(deadline int64) uint64 {
	now := v.now
	if v.cfg.LogNow != nil {
		now = max(now, v.cfg.LogNow.Load())
	}
	return uint64(max(1, deadline-now-v.cfg.Cut))
}

// Moved refuses a read of a path, or of a namespace, in a namespace that it was resolved to
// with routes of the given version, if a routing change has overtaken them.
func (v *View) Moved(ns, path string, version uint64) (wire.Result, bool) {
	moved, need := version < v.version, v.version
	for i := range v.frozen {
		if f := &v.frozen[i]; f.bars(version) && movesPath(&v.policies, f.root, ns, path) {
			moved, need = true, max(need, f.until)
		}
	}
	if !moved {
		return wire.Result{}, false
	}
	return movedTo(need), true
}

// Overtaken refuses a read that was resolved with routes of a version, if a routing change has
// overtaken them.
func (v *View) Overtaken(version uint64) (wire.Result, bool) {
	if version >= v.version {
		return wire.Result{}, false
	}
	return movedTo(v.version), true
}

// lives says that the owner has a live lease in a namespace, and until when.
func (v *View) lives(owner, ns string) (until int64, ok bool) {
	key := appendLeaseKey(nil, owner, ns)
	return v.alive(view(key), v.leases.GetBytes(key))
}

// alive says that a lease is alive, and until when. What its sessions did counts, whether steps came to
// the lease since or not.
func (v *View) alive(key string, l *lease) (until int64, ok bool) {
	if !l.held() || l.deadline <= v.now {
		return 0, false
	}
	until = ends(&v.departing, &v.cfg, l, key)
	return until, until > v.now
}

// has says that the owner has a live lease in a namespace.
func (v *View) has(owner, ns string) bool {
	_, ok := v.lives(owner, ns)
	return ok
}

// Alive says that the owner has a live lease in one of the domains; in any
// namespace when none are named.
func (v *View) Alive(owner string, domains []string) bool {
	return !v.eachLease(owner, domains, func(*lease) bool { return false })
}

// eachLease calls f with the owner's live leases until it answers false, and says
// whether it saw them all.
func (v *View) eachLease(owner string, domains []string, f func(*lease) bool) bool {
	return v.leases.Sub(string(appendLeaseKey(nil, owner, ""))).Ascend(func(key string, l *lease) bool {
		if _, ok := v.alive(key, l); ok && inDomains(l.ns, domains) {
			return f(l)
		}
		return true
	})
}

// Waits says that the owner waits for something in the group.
func (v *View) Waits(owner string) bool {
	return !v.leases.Sub(string(appendLeaseKey(nil, owner, ""))).Ascend(func(_ string, l *lease) bool {
		return l.waits.Empty()
	})
}

// Assert checks that the owner writes a path under exactly that token
// (contract.md section 6).
func (v *View) Assert(owner, ns, path string, token int64) wire.Result {
	h := v.holds.Get(string(appendKey(nil, ns, path)))
	switch {
	case h == nil || h.owner != owner || !v.has(owner, ns):
		return wire.Result{Status: wire.AssertFail, Path: owned(path), Reason: wire.ReasonStaleOwner}
	case h.token != token && Planted != PlantAnyToken:
		return wire.Result{Status: wire.AssertFail, Path: owned(path), Reason: wire.ReasonStaleFencingToken}
	}
	return wire.Result{}
}

// Policy answers the algorithm in force in a namespace, and whether it was chosen.
func (v *View) Policy(ns string) (alg wire.Algorithm, chosen bool) {
	if p := v.policies.Get(ns); p != nil {
		return p.algorithm, true
	}
	return v.cfg.Algorithm, false
}

// Edge answers the owner's wait edge.
func (v *View) Edge(owner string) (blocker, path string, reason wire.Reason, ok bool) {
	e := v.edges.Get(owner)
	if e == nil || e.deadline <= v.now {
		return "", "", 0, false
	}
	return e.blocker, e.path, e.reason, true
}

// Blocking says that the named lock is still in the way for the given reason
// (contract.md section 9). For QUEUED it is while the owner waits for the path, or
// holds it.
func (v *View) Blocking(ns, path, owner string, reason wire.Reason) bool {
	key := string(appendKey(nil, ns, path))
	live := v.has(owner, ns)
	holds := func(suffix string) bool { return live && v.holds.Get(key+suffix+owner) != nil }
	writes := func() bool {
		h := v.holds.Get(key)
		return live && h != nil && h.owner == owner
	}
	switch reason {
	case wire.ReasonReadLocked, wire.ReasonDescendantReadLocked:
		return holds(readSuffix)
	case wire.ReasonSemaphoreFull:
		return holds(permSuffix)
	case wire.ReasonQueued:
		if writes() || holds(readSuffix) || holds(permSuffix) {
			return true
		}
		l := v.leases.Get(string(appendLeaseKey(nil, owner, ns)))
		return l != nil && !l.waits.Sub(key+"\x00").Empty()
	}
	return writes()
}

// Inspect answers who holds exactly one path, and its fence.
func (v *View) Inspect(ns, path string) wire.Result {
	key := string(appendKey(nil, ns, path))
	res := wire.Result{List: new(wire.List)}
	if h := v.holds.Get(key); h != nil && h.owner != "" && v.has(h.owner, ns) {
		res.Owner = h.owner
	}
	res.List.Names = v.sharers(key, readSuffix, ns)
	res.List.Names2 = v.sharers(key, permSuffix, ns)
	res.Token, res.Flag = v.fence(key)
	return res
}

func (v *View) sharers(key, suffix, ns string) (owners []string) {
	v.holds.Sub(key + suffix).Ascend(func(_ string, h *hold) bool {
		if v.has(h.owner, ns) {
			owners = append(owners, h.owner)
		}
		return true
	})
	return owners
}

// fence is the path's fence, also when nobody holds it.
func (v *View) fence(key string) (int64, bool) {
	if h := v.holds.Get(key); h != nil {
		if h.owner != "" && v.has(h.owner, namespaceOf(key)) {
			return h.token, true
		}
		return floorOf(v.floors, key, h.token, true)
	}
	token, ok := v.fences.Fence(key)
	return floorOf(v.floors, key, token, ok)
}

// info shows one hold, ok false when its owner's lease is over.
func (v *View) info(key string, h *hold) (i wire.LockInfo, ok bool) {
	until, ok := v.lives(h.owner, namespaceOf(key))
	if !ok {
		return i, false
	}
	i = wire.LockInfo{
		Owner: h.owner, Path: pathOf(key), Mode: h.mode, SinceUnixMillis: h.since,
		ExpiresInMillis: v.left(until), Algorithm: h.alg, Permits: h.permits,
	}
	if h.meta != nil {
		i.Meta = []byte(*h.meta)
	}
	if h.alg != wire.Semaphore && h.mode == wire.ModeWrite {
		i.HasFence, i.Fence = true, h.token
	}
	return i, true
}

// Scan answers held locks in the order of their keys: at most max of them, whose
// key in the state is above after, at and below a path or namespace, or all when
// that is "". last is the key to go on after, "" when there is no more.
func (v *View) Scan(below, after string, max int) (locks []wire.LockInfo, last string) {
	path := strings.TrimSuffix(rootPath(below), "/")
	more := false
	for head := ""; ; {
		key, _, ok := v.holds.Ceiling("", head, 0)
		if !ok {
			break
		}
		prefix := ""
		if below != "" {
			prefix = key[:keyHead] + path
		}
		more = !v.holds.AscendFrom(prefix, liveHolds, after+"\x00", func(key string, h *hold) bool {
			if below != "" && !contains(below, pathOf(key)) {
				return true
			}
			if i, ok := v.info(key, h); ok {
				locks, last = append(locks, i), key
			}
			return len(locks) < max
		})
		if more || below == "" {
			break
		}
		head = key[:keyHead] + "\xff"
	}
	if !more {
		last = ""
	}
	return locks, last
}

// Describe answers everything about one path: who holds it and what covers it,
// who waits for it in the order of arrival (at most max), and how much is held
// below.
func (v *View) Describe(ns, path string, max int) wire.Result {
	key := string(appendKey(nil, ns, path))
	list := new(wire.List)
	res := wire.Result{Namespace: owned(ns), List: list}
	res.Algorithm, _ = v.Policy(ns)
	res.Token, res.Flag = v.fence(key)
	v.holds.Walk(key, func(at int, st trie.Step[hold]) bool {
		if h := st.Value(); h != nil && h.owner != "" && isBoundary(key, at) && h.alg.Recursive() {
			if i, ok := v.info(key[:at], h); ok {
				list.Covering = append(list.Covering, i)
			}
		}
		return true
	})
	add := func(k string, h *hold) bool {
		if i, ok := v.info(k, h); ok && h.owner != "" {
			list.Infos = append(list.Infos, i)
		}
		return true
	}
	if h := v.holds.Get(key); h != nil {
		add(key, h)
	}
	v.holds.Sub(key + "\x00").Ascend(add)
	below := v.holds.Sub(key + "/").Sum()
	list.Count2, list.Count3 = uint64(below.Count[classWrite]), uint64(below.Count[classRead])
	waiting := v.queue.Sub(key + "\x00")
	res.Count = uint64(waiting.Count(classWait))
	for it := waiting.ByRank(1); len(list.Waiters) < max; {
		k, seq, _, ok := it.Next()
		if !ok {
			break
		}
		list.Waiters = append(list.Waiters, v.waiterInfo(k, seq, uint64(len(list.Waiters))+1))
	}
	return res
}

func (v *View) waiterInfo(qkey string, seq, position uint64) wire.WaiterInfo {
	w := v.waiters.Get(string(appendSeq(nil, seq)))
	i := wire.WaiterInfo{
		Owner: w.owner, Path: pathOf(qkey), Token: w.token, SinceUnixMillis: w.since,
		Position: position, Open: w.open,
	}
	if w.deadline > v.now {
		i.ExpiresInMillis = v.left(w.deadline)
	}
	if qkey[len(qkey)-queueSuffix:][:len(readQueue)] == readQueue {
		i.Mode = wire.ModeRead
	} else if w.alg == wire.Semaphore {
		i.Permits = v.queue.Get(qkey).permits
	}
	if w.meta != nil {
		i.Meta = []byte(*w.meta)
	}
	return i
}

// Stats counts what a state holds, for metrics and limits.
type Stats struct {
	Writes, Reads, Fences, Waiting, Leases, Kept, Edges int
}

// Stats answers the counts of the state.
func (s *State) Stats() Stats {
	h, q, k, e := s.holds.Sum(), s.queue.Sum(), s.kept.Sum(), s.edges.Sum()
	return Stats{
		Writes: int(h.Count[classWrite]), Reads: int(h.Count[classRead]), Fences: int(h.Count[classGhost]),
		Waiting: int(q.Count[classWait]), Kept: int(k.Count[0]), Edges: int(e.Count[0]),
	}
}
