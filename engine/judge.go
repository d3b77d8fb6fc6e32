package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// want is one path of a request.
type want struct {
	key     string // path key
	mode    wire.Mode
	state   wire.LockState
	permits uint32
}

// asking is a request as it is judged: one that just came, or one that waits.
type asking struct {
	owner string
	ns    string
	alg   wire.Algorithm
	l     *lease // the owner's record, nil when it has none
	wants []want
	token int64  // the caller's own, or what was minted when it was queued
	own   bool   // token is the caller's own
	seq   uint64 // place in the queue it is judged with; noPlace for a newcomer
	by    uint64 // the request, as hold.by names it
}

// noPlace is the arrival number of a request that every waiter came before.
const noPlace = math.MaxUint64

// verdict says what stands in a request's way. The zero verdict: nothing does.
type verdict struct {
	blocked bool // somebody does, and may go away
	status  wire.Status
	reason  wire.Reason
	path    string // shares memory of the trees
	owner   string
	want    *want // the wish that decided
	fence   int64 // of a stale token
}

func refused(status wire.Status, reason wire.Reason, w *want) verdict {
	return verdict{status: status, reason: reason, want: w, path: pathOf(w.key)}
}

func blockedBy(reason wire.Reason, key, owner string, w *want) verdict {
	return verdict{blocked: true, status: wire.StatusQueued, reason: reason, path: pathOf(key), owner: owner, want: w}
}

// hopeless finds what no waiting can mend (contract.md section 5, rows 1, 3
// and 9).
func (s *State) hopeless(a *asking) (verdict, bool) {
	for i := range a.wants {
		w := &a.wants[i]
		if w.state == wire.StateHeld {
			continue
		}
		if w.mode == wire.ModeRead {
			if !a.alg.AllowsReads() {
				return refused(wire.StatusConflict, wire.ReasonReadLocksDisabled, w), true
			}
			continue
		}
		if a.alg == wire.Semaphore {
			if capacity := s.capacity(a, w); w.permits == 0 || capacity != 0 && capacity != w.permits {
				v := refused(wire.StatusConflict, wire.ReasonInvalidPermits, w)
				v.owner = decimal(capacity)
				return v, true
			}
			continue
		}
		if a.token > 0 && a.own {
			if fence, stale := s.refuses(w.key, a.token, a.l.writes(w.key)); stale {
				v := refused(wire.StatusConflict, wire.ReasonStaleFencingToken, w)
				v.fence = fence
				return v, true
			}
		}
	}
	return verdict{}, false
}

// judge says whether a newcomer may have all it wants now.
//
// What is said to be held is looked at first: a request that relies on a hold
// that is gone can never succeed, so it is refused even if something else would
// have made it wait.
func (s *State) judge(a *asking) verdict {
	if v := s.relies(a); v.status != wire.StatusOK {
		return v
	}
	return s.waits(a)
}

// relies finds a hold that a says it has and has not.
func (s *State) relies(a *asking) verdict {
	for i := range a.wants {
		if w := &a.wants[i]; w.state == wire.StateHeld {
			if v := s.checkHeld(a, w); v.status != wire.StatusOK {
				return v
			}
		}
	}
	return verdict{}
}

// waits finds whom a has to wait for: an earlier waiter, or a holder.
func (s *State) waits(a *asking) verdict {
	if !s.queue.Empty() {
		for i := range a.wants {
			if w := &a.wants[i]; w.state == wire.StateNew && !s.exempt(a, w) {
				seq, key := s.earliest(w.key, w.mode == wire.ModeWrite, a.alg.Recursive(), a.l, 1, a.seq)
				if seq != 0 && !s.waitsFor(s.waiter(seq), a, w) {
					return blockedBy(wire.ReasonQueued, key, s.queue.Get(key).owner, w)
				}
			}
		}
	}
	for i := range a.wants {
		if w := &a.wants[i]; w.state == wire.StateNew {
			if v := s.blocked(a, w); v.blocked {
				return v
			}
		}
	}
	return verdict{}
}

// checkHeld validates a hold the caller says it has (contract.md section 5,
// HELD).
func (s *State) checkHeld(a *asking, w *want) verdict {
	if !a.l.held() {
		return verdict{status: wire.StatusLost, reason: wire.ReasonMissingAlive, want: w}
	}
	h, missing := s.holdOf(a.l, w)
	if h == nil {
		return refused(wire.StatusLost, missing, w)
	}
	if a.own && w.mode == wire.ModeWrite && h.alg != wire.Semaphore && h.token > a.token && a.token > 0 {
		v := refused(wire.StatusConflict, wire.ReasonStaleFencingToken, w)
		v.fence = h.token
		return v
	}
	return verdict{}
}

// holdOf is the owner's own hold that w names, or the reason that says it is
// missing. A permit is named by the mode write.
func (s *State) holdOf(l *lease, w *want) (h *hold, missing wire.Reason) {
	if w.mode == wire.ModeRead {
		return s.shared(l, w.key, readSuffix), wire.ReasonMissingRead
	}
	if l.writes(w.key) {
		return s.holds.Get(w.key), 0
	}
	if h := s.shared(l, w.key, permSuffix); h != nil {
		return h, 0
	}
	return nil, s.missingIn(l.ns, w.mode)
}

// missingIn is the reason that says that a hold is missing in a namespace.
func (s *State) missingIn(ns string, mode wire.Mode) wire.Reason {
	if mode == wire.ModeRead {
		return wire.ReasonMissingRead
	}
	if a, _ := s.algorithm(ns); a == wire.Semaphore {
		return wire.ReasonMissingSemaphore
	}
	return wire.ReasonMissingWrite
}

// shared is the owner's read hold or permit on a path, nil when it has none.
func (s *State) shared(l *lease, key, suffix string) *hold {
	s.key2 = append(append(append(s.key2[:0], key...), suffix...), l.owner...)
	return s.holds.Get(view(s.key2))
}

// writes says that the owner holds the write on exactly that path.
func (l *lease) writes(key string) bool { return l != nil && l.holds.Get(key) != nil }

// reads says that it holds the read on exactly that path.
func (s *State) reads(l *lease, key string) bool {
	return l != nil && l.holds.Get(s.suffixed(key, readSuffix)) != nil
}

// suffixed is a key and a suffix, in scratch memory.
func (s *State) suffixed(key, suffix string) string {
	s.key2 = append(append(s.key2[:0], key...), suffix...)
	return view(s.key2)
}

// exempt says that a need not yield to earlier requests for w: it covers the path
// already, or it is the path's only reader and wants to write (contract.md
// section 7).
func (s *State) exempt(a *asking, w *want) bool {
	if a.l == nil || a.l.holds.Empty() {
		return false
	}
	return s.covers(a, w) || w.mode == wire.ModeWrite && s.reads(a.l, w.key) && s.soleReader(w.key) == a.owner
}

// waitsFor says that a waiter waits for what the owner of a holds below w, a path it wants
// to write. It came before a, and yet a need not yield to it: they would wait for each
// other. An owner widens what it holds as if it had asked for it before whoever waits for
// that; so it yields to nobody who came after such a waiter, either. Only the first of the
// waiters in its way has to be asked: who came before the first that waits for its holds
// has its turn before.
func (s *State) waitsFor(q *waiter, a *asking, w *want) bool {
	if a.l == nil || w.mode != wire.ModeWrite || !a.alg.Recursive() || !s.holdsBelow(a.l, w.key) ||
		Planted == PlantOwnQueue {
		return false
	}
	return slices.ContainsFunc(q.wants, func(o want) bool {
		switch write := o.mode == wire.ModeWrite; {
		case o.state != wire.StateNew:
			return false
		case write && (o.key == w.key || isAbove(o.key, w.key)):
			return true
		case !isAbove(w.key, o.key):
			return false
		default:
			return a.l.covered(o.key, len(w.key)) || write && (s.reads(a.l, o.key) || s.holdsBelow(a.l, o.key))
		}
	})
}

// holdsBelow says that the owner holds something below a path.
func (s *State) holdsBelow(l *lease, key string) bool {
	return !l.holds.Sub(s.suffixed(key, "/")).Empty()
}

// covered says that the owner writes a path, or one above it of more than from bytes,
// where writes are recursive.
func (l *lease) covered(key string, from int) (found bool) {
	if l.writes(key) {
		return true
	}
	l.holds.Walk(key, func(at int, st trie.Step[struct{}]) bool {
		found = found || at > from && isBoundary(key, at) && st.Value() != nil
		return !found
	})
	return found
}

// isAbove says that the path of one key is a true ancestor of that of another.
func isAbove(above, key string) bool {
	return len(key) > len(above) && key[len(above)] == slash && strings.HasPrefix(key, above)
}

// covers says that what the owner holds includes w.
func (s *State) covers(a *asking, w *want) bool {
	if a.alg == wire.Semaphore {
		return a.l.holds.Get(s.suffixed(w.key, permSuffix)) != nil
	}
	if a.l.writes(w.key) || w.mode == wire.ModeRead && s.reads(a.l, w.key) {
		return true
	}
	found := false
	if a.alg.Recursive() {
		a.l.holds.Walk(w.key, func(at int, st trie.Step[struct{}]) bool {
			found = found || isBoundary(w.key, at) && st.Value() != nil
			return !found
		})
	}
	return found
}

// soleReader is the one owner that reads the path, "" when there is none or
// another. Who is past its time does not count, unless they are very many (maxEarly).
func (s *State) soleReader(key string) (owner string) {
	readers := s.holds.Sub(s.suffixed(key, readSuffix))
	n := readers.Count(classRead)
	if n != 1 && (n > maxEarly || !s.unsettled()) {
		return ""
	}
	ns, live := namespaceOf(key), 0
	readers.Ascend(func(_ string, h *hold) bool {
		if n == 1 || s.lasts(h.owner, ns) {
			owner = h.owner
			live++
		}
		return live < 2
	})
	if live != 1 {
		return ""
	}
	return owner
}

// blocked finds what another owner holds that stands in the way of w (contract.md
// section 5, rows 2 and 4–8). Holds of a lease that is past its time do not
// count: they are freed on the way, up to maxEarly leases.
func (s *State) blocked(a *asking, w *want) verdict {
	for {
		v := s.conflict(a, w)
		if !v.blocked || !s.unsettled() || !s.endOverdue(a, w, v.owner) {
			return v
		}
	}
}

// overdue says that something is past its time and not yet ended.
func (s *State) overdue() bool {
	at, ok := s.deadlines.next()
	return ok && at <= s.now
}

// lasts says that the lease of an owner that holds something is alive.
func (s *State) lasts(owner, ns string) bool {
	key := s.leaseKey(owner, ns)
	l := s.leases.Get(key)
	return l.held() && l.deadline > s.now && ends(&s.departing, &s.cfg, l, key) > s.now
}

// maxEarly is how many leases that are over one command, or one call that ends what is due, may end before their
// turn, as they are in somebody's way, and how many readers of a path are looked at for one that is not over. Beyond it
// they count as standing until their turn has come: to end 100 000 took a second.
const maxEarly = 64

// maxHolders is how many holders of full semaphores a step goes through for those that are over. With 50 000 each
// request that was refused took 6 ms, for as long as anything was to end anywhere, and a release of 64 paths whose
// waiters each lacked another semaphore, with 1024, 20 ms.
const maxHolders = 1024

// endOverdue ends the leases past their time that stand in w's way, and says
// whether there were any. The holders of a full semaphore all do (maxHolders).
func (s *State) endOverdue(a *asking, w *want, blocker string) (any bool) {
	if s.early >= maxEarly {
		return false
	}
	owners := []string{blocker} // of what lies above a semaphore's path, if its namespace had other rules before
	if a.alg == wire.Semaphore {
		of := s.holders(w.key, permSuffix, maxHolders-s.looked)
		s.looked += len(of)
		owners = append(owners, of...)
	}
	for _, o := range owners {
		any = s.endIfOverdue(o, a.ns) || any
	}
	if any && a.l != nil { // the trees moved under the owner's own record
		a.l = s.ownership(a.owner, a.ns)
	}
	return any
}

// endIfOverdue ends an owner's lease if it is over, and this step may end one more before its turn.
func (s *State) endIfOverdue(owner, ns string) bool {
	if s.early >= maxEarly {
		return false
	}
	if !s.leases.Get(s.leaseKey(owner, ns)).held() || s.lasts(owner, ns) {
		return false
	}
	l := s.leases.Edit(s.w, s.leaseKey(owner, ns))
	s.meets(l)
	s.early++
	s.endLease(l, everything)
	return true
}

// holders lists the owners of the first shared holds on a path, in order.
func (s *State) holders(key, suffix string, most int) (owners []string) {
	s.holds.Sub(s.suffixed(key, suffix)).Ascend(func(_ string, h *hold) bool {
		if len(owners) < most {
			owners = append(owners, h.owner)
		}
		return len(owners) < most
	})
	return owners
}

// conflict is blocked with every hold taken as live.
func (s *State) conflict(a *asking, w *want) verdict {
	var above string // nearest ancestor written recursively by another
	var aboveOwner string
	var here trie.Step[hold]
	found := false
	s.holds.Walk(w.key, func(at int, st trie.Step[hold]) bool {
		if at == len(w.key) {
			here, found = st, true
			return false
		}
		if h := st.Value(); h != nil && isBoundary(w.key, at) &&
			h.owner != "" && h.owner != a.owner && h.alg.Recursive() {
			above, aboveOwner = w.key[:at], h.owner
		}
		return true
	})
	if above != "" {
		return blockedBy(wire.ReasonAncestorLocked, owned(above), aboveOwner, w)
	}
	if !found {
		return verdict{}
	}
	if a.alg == wire.Semaphore {
		return s.full(a, w, here)
	}
	if h := here.Value(); h != nil && h.owner != "" && h.owner != a.owner {
		return blockedBy(wire.ReasonWriteLocked, owned(w.key), h.owner, w)
	}
	if w.mode == wire.ModeRead {
		return verdict{}
	}
	if readers := here.Sub(s.suffixed(w.key, readSuffix)); !readers.Empty() {
		if o := firstOther(readers, a.owner); o != "" {
			return blockedBy(wire.ReasonReadLocked, owned(w.key), o, w)
		}
	}
	if !a.alg.Recursive() {
		return verdict{}
	}
	below := here.Sub(s.suffixed(w.key, "/"))
	if Planted == PlantWalkBelow {
		below.Ascend(func(string, *hold) bool { return true })
	}
	for _, c := range [...]trie.Class{classWrite, classRead} {
		if n := below.Count(c); n > 0 && n > a.l.below(s, w.key, c) {
			return s.descendant(a, w, c)
		}
	}
	return verdict{}
}

// below is how many holds of a class the owner has below a path.
func (l *lease) below(s *State, key string, c trie.Class) uint32 {
	if l == nil {
		return 0
	}
	return l.holds.Sub(s.suffixed(key, "/")).Count(c)
}

// full is row 4: the path's permits are all taken and none by the caller.
func (s *State) full(a *asking, w *want, here trie.Step[hold]) verdict {
	holders := here.Sub(s.suffixed(w.key, permSuffix))
	if holders.Count(classWrite) < w.permits || Planted == PlantLoosePermit && holders.Count(classWrite) <= w.permits ||
		a.l != nil && a.l.holds.Get(s.suffixed(w.key, permSuffix)) != nil {
		return verdict{}
	}
	return blockedBy(wire.ReasonSemaphoreFull, owned(w.key), firstOther(holders, a.owner), w)
}

// firstOther is the first owner of a shared hold that is not me, "" when there is
// none.
func firstOther(sub trie.Sub[hold], me string) (other string) {
	sub.Ascend(func(_ string, h *hold) bool {
		if h.owner != me {
			other = h.owner
		}
		return other == ""
	})
	return other
}

// descendant is rows 7 and 8: the first path below w, in byte order, that another
// holds in class c, which is known to exist. It is found by walking where the
// counts of all holds and of the caller's differ.
func (s *State) descendant(a *asking, w *want, c trie.Class) (v verdict) {
	mine := func(prefix []byte) uint32 {
		if a.l == nil {
			return 0
		}
		return a.l.holds.SubBytes(prefix).Count(c)
	}
	s.holds.Foreign(w.key+"/", c, nul, mine, func(key string, h *hold) bool {
		if h.owner == a.owner {
			return false
		}
		reason := wire.ReasonDescendantWriteLocked
		if c == classRead {
			reason = wire.ReasonDescendantReadLocked
		}
		v = blockedBy(reason, key, h.owner, w)
		return true
	})
	return v
}

// capacity is how many may hold a semaphore's path at once: what its first holder
// or waiter said, 0 while there is neither. All who hold it said the same. So who is past its time is looked for
// only where something else is asked for.
func (s *State) capacity(a *asking, w *want) (permits uint32) {
	var owner string
	ended := false
	for {
		owner, permits = s.firstPermit(w.key)
		if owner == "" || permits == w.permits || !s.unsettled() || !s.endIfOverdue(owner, a.ns) {
			break
		}
		ended = true
	}
	if ended && a.l != nil { // the trees moved under the owner's own record
		a.l = s.ownership(a.owner, a.ns)
	}
	if owner == "" {
		s.queue.Sub(s.suffixed(w.key, writeQueue)).Ascend(func(k string, p *place) bool {
			if s.late(s.waiter(seqOf(k))) {
				return true
			}
			permits = p.permits
			return false
		})
	}
	return permits
}

// firstPermit is the first owner that holds a semaphore's path, "" for none, and how many it said may do so.
func (s *State) firstPermit(key string) (owner string, permits uint32) {
	s.holds.Sub(s.suffixed(key, permSuffix)).Ascend(func(_ string, h *hold) bool {
		owner, permits = h.owner, h.permits
		return false
	})
	return owner, permits
}
