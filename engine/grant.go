package engine

import (
	"container/heap"
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// How waiters get what was freed.
//
// After a step has freed things, the waiters that lacked just those are granted,
// in arrival order, before the step ends. Nobody else can have become grantable,
// so nobody else is looked at; and of those who wait for one path, those are
// looked at that can still be granted, not all of them.
//
// A cursor walks the queue of one path in one mode, in arrival order. The
// cursors of all that was freed stand in a heap by the arrival number they are
// at, so that waiters are judged in arrival order across paths. A cursor ends
// where nobody further back can be granted:
//
//   - A write was granted: it blocks all others on the path. So does a write that
//     stays blocked, except for requests of its own owner, and for these too if it is
//     blocked for this path: by whatever blocks it, so are they. (One that lacks another
//     path does not block its owner's next.)
//   - A read stays blocked on this path or above it: what blocks it blocks all
//     later reads. A request that lacks another path, or also wants to write this
//     one and lacks that, does not.
//   - A permit was granted: the next may fit too.
//   - What was freed is the place of a waiter, and a write of its owner waits there: it did not yield to that place,
//     so it lacks what it lacked, and blocks all others on the path.
//
// Three kinds of waiter need not yield to those before them, so a cursor could end
// before it reaches them: those whose owner covers the path, a sole reader that wants
// to write, and those that widen what others wait for (waitsFor). They are looked up by
// their owner, when it comes to hold more (nowCovered) or comes to be the last who
// reads there, or holds anything at or below (lastThere).

// freed is a hold or a waiter's place that is gone.
type freed struct {
	key       string // path key
	write     bool   // a write or a permit, else a read
	recursive bool   // it covered what lies below, if a write
	since     uint64 // arrival number of the waiter it was, 0 for a hold
	by        string // and its owner, whose other requests did not yield to it
	root      string // when not "": of a routing change that is over: everything that it moves, and writes above
}

// cursor is a place in the queue of one path and mode, or one waiter alone.
type cursor struct {
	seq    uint64 // where it stands
	prefix string // of the queue's keys; "" for a single waiter
	only   string // when not "": only this owner's requests can be granted
	not    string // when not "": this owner's lack what they lacked
}

type cursorHeap []cursor

func (h cursorHeap) Len() int      { return len(h) }
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(x any)   { *h = append(*h, x.(cursor)) }
func (h cursorHeap) Less(i, j int) bool {
	return h[i].seq < h[j].seq || h[i].seq == h[j].seq && h[i].prefix < h[j].prefix
}
func (h *cursorHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// next takes the cursor out that comes first, and those that have come to the same place as it: they would look
// at the same waiters. Where very many places were freed in a queue, each would be moved on for each of them.
func (h *cursorHeap) next() cursor {
	c := heap.Pop(h).(cursor)
	for len(*h) > 0 && c.meets(&(*h)[0]) {
		o := heap.Pop(h).(cursor)
		if c.only != o.only {
			c.only = ""
		}
		if c.not != o.not {
			c.not = ""
		}
	}
	return c
}

// meets says that one cursor can look at what both would.
func (c *cursor) meets(o *cursor) bool {
	return c.seq == o.seq && c.prefix == o.prefix && (c.only == o.only || c.only == "" || o.only == "")
}

// settle grants what the step freed. It ends every step.
func (s *State) settle() {
	for {
		for len(s.freed) > 0 && !s.queue.Empty() {
			f := s.freed[len(s.freed)-1]
			s.freed = s.freed[:len(s.freed)-1]
			s.follow(f)
		}
		if s.queue.Empty() {
			clear(s.freed)
			s.freed, s.cursors = s.freed[:0], s.cursors[:0]
			return
		}
		if len(s.cursors) == 0 {
			return
		}
		s.advance(s.cursors.next())
	}
}

// follow starts the cursors over all that f may let in.
func (s *State) follow(f freed) {
	if f.root != "" {
		// Everybody there: whatever was freed in the meantime, and whatever an owner came to
		// hold, they were passed over.
		eachMovingIn(s, &s.queue, classWait.Mask(), f.root, f.key, func(k string, _ *place) bool {
			heap.Push(&s.cursors, cursor{seq: seqOf(k)})
			return true
		})
		s.queue.Walk(f.key, func(n int, st trie.Step[place]) bool {
			if n < len(f.key) && isBoundary(f.key, n) {
				s.queue.Sub(f.key[:n] + writeQueue).Ascend(func(k string, _ *place) bool {
					heap.Push(&s.cursors, cursor{seq: seqOf(k)})
					return true
				})
			}
			return n < len(f.key)
		})
		return
	}
	s.queue.Walk(f.key, func(n int, st trie.Step[place]) bool {
		if n == len(f.key) {
			return false
		}
		if f.recursive && isBoundary(f.key, n) {
			above := f.key[:n]
			if first := st.Sub(s.suffixed(above, writeQueue)).First(); first != 0 {
				heap.Push(&s.cursors, cursor{seq: first, prefix: above + writeQueue, not: f.by})
				s.lastThere(above, true, f.by)
			}
		}
		return true
	})
	s.pushPath(f.key, f.write, &f)
	if !f.write || f.since != 0 {
		s.lastThere(f.key, f.recursive, f.by)
	}
	if f.write && f.recursive {
		s.pushBelow(f.key, &f)
	}
}

// pushPath starts cursors over those who wait for a path since f came.
func (s *State) pushPath(key string, reads bool, f *freed) {
	heap.Push(&s.cursors, cursor{seq: f.since + 1, prefix: key + writeQueue, not: f.by})
	if reads {
		heap.Push(&s.cursors, cursor{seq: f.since + 1, prefix: key + readQueue, not: f.by})
	}
}

// pushBelow starts cursors over every path below key that somebody waits for
// since f came.
func (s *State) pushBelow(key string, f *freed) {
	prefix := key + "/"
	for from := prefix; ; {
		found, _, ok := s.queue.Ceiling(prefix, from, f.since)
		if !ok {
			return
		}
		path := found[:len(found)-queueSuffix]
		s.pushPath(path, true, f)
		from = path + "\x01" // past this path's queue
	}
}

// lastThere looks at what a path's last reader waits for there, and, where writes are
// recursive, who alone holds anything at or below the path; not at what one owner does.
func (s *State) lastThere(key string, recursive bool, not string) {
	owner := s.soleReader(key)
	if owner == "" && recursive {
		owner = s.soleHolder(key)
	}
	if owner == "" || owner == not {
		return
	}
	s.pushOwn(s.leases.Get(s.leaseKey(owner, namespaceOf(key))), key, false)
}

// soleHolder is the one owner that holds anything at or below a path, "" when there is
// none or another.
func (s *State) soleHolder(key string) (owner string) {
	if s.queue.Sub(s.suffixed(key, writeQueue)).Empty() {
		return "" // nobody asks
	}
	subs := [...]trie.Sub[hold]{s.holds.Sub(s.suffixed(key, readSuffix)), s.holds.Sub(s.suffixed(key, "/"))}
	n := uint32(0)
	if h := s.holds.Get(key); h != nil && h.owner != "" {
		owner, n = h.owner, 1
	}
	for _, sub := range subs {
		n += sub.Count(classWrite) + sub.Count(classRead)
		if owner == "" {
			sub.AscendClass(liveHolds, func(_ string, h *hold) bool { owner = h.owner; return false })
		}
	}
	if owner == "" {
		return ""
	}
	l := s.leases.Get(s.leaseKey(owner, namespaceOf(key)))
	own := l.below(s, key, classWrite) + l.below(s, key, classRead)
	if l.writes(key) {
		own++
	}
	if s.reads(l, key) {
		own++
	}
	if own != n {
		return ""
	}
	return owner
}

// nowCovered looks at what else an owner waits for that it covers since it got
// the wants of a, or that widens them.
func (s *State) nowCovered(a *asking) {
	for i := range a.wants {
		if w := &a.wants[i]; w.state == wire.StateNew {
			s.pushOwn(a.l, w.key, w.mode == wire.ModeWrite && a.alg.Recursive())
			if a.alg.Recursive() {
				s.pushAbove(a.l, w.key)
			}
		}
	}
}

// pushAbove looks at an owner's own waiters for writes above a path.
func (s *State) pushAbove(l *lease, key string) {
	l.waits.Walk(key, func(n int, st trie.Step[struct{}]) bool {
		if isBoundary(key, n) {
			st.Sub(s.suffixed(key[:n], writeQueue)).Ascend(func(k string, _ *struct{}) bool {
				heap.Push(&s.cursors, cursor{seq: seqOf(k)})
				return true
			})
		}
		return n < len(key)
	})
}

// pushOwn looks at an owner's own waiters for a path, and below it.
func (s *State) pushOwn(l *lease, key string, below bool) {
	push := func(k string, _ *struct{}) bool {
		heap.Push(&s.cursors, cursor{seq: seqOf(k)})
		return true
	}
	l.waits.Sub(s.suffixed(key, "\x00")).Ascend(push)
	if below {
		l.waits.Sub(s.suffixed(key, "/")).Ascend(push)
	}
}

// advance judges the waiter a cursor stands at, and moves the cursor on unless
// nobody further back can be granted.
func (s *State) advance(c cursor) {
	if c.prefix == "" {
		if s.waiter(c.seq) != nil {
			s.tryGrant(c.seq)
		}
		return
	}
	s.keys2 = appendSeq(append(s.keys2[:0], c.prefix...), c.seq)
	key, p, ok := s.queue.Ceiling(c.prefix, view(s.keys2), 0)
	if !ok {
		return
	}
	if seq := seqOf(key); seq != c.seq {
		c.seq = seq
		heap.Push(&s.cursors, c)
		return
	}
	if c.only != "" && p.owner != c.only {
		return
	}
	writes := strings.HasSuffix(c.prefix, writeQueue)
	if p.owner == c.not && !s.late(s.waiter(c.seq)) {
		if !writes { // else it blocks all others on the path
			c.seq++
			heap.Push(&s.cursors, c)
		}
		return
	}
	owner := p.owner
	v, alg, gone := s.tryGrant(c.seq)
	switch {
	case gone && v.status != wire.StatusOK: // refused: as if it had never waited
	case gone && writes && alg != wire.Semaphore:
		return
	case gone:
	case writes && v.want.mode == wire.ModeWrite && v.want.key == c.prefix[:len(c.prefix)-len(writeQueue)]:
		return
	case writes:
		c.only = owner
	case v.want.mode == wire.ModeRead && v.want.key == c.prefix[:len(c.prefix)-len(readQueue)]:
		if v.reason == wire.ReasonQueued {
			l := s.leases.Get(s.leaseKey(v.owner, namespaceOf(c.prefix)))
			s.pushOwn(l, v.want.key, false)
		}
		return
	}
	c.seq++
	heap.Push(&s.cursors, c)
}

// tryGrant judges a waiter. It answers what stands in its way, if anything does,
// its namespace's algorithm, and whether it is gone: granted, or refused because
// no waiting can help it any more.
func (s *State) tryGrant(seq uint64) (v verdict, alg wire.Algorithm, gone bool) {
	w := *s.waiter(seq)
	if s.late(&w) {
		s.waiterOver(seq)
		return verdict{status: wire.StatusLost}, w.alg, true
	}
	s.meetsCall(seq) // what it gets then is for its grace, and takes over no lease
	a := asking{
		owner: w.owner, ns: w.ns, alg: w.alg, l: s.ownership(w.owner, w.ns), wants: w.wants,
		token: w.token, own: w.own, seq: seq,
	}
	if w.open { // several may have asked for a polled place: what it is granted nobody takes back alone
		a.by = w.caller.mark()
	}
	now := s.waiter(seq)
	if now == nil { // it relied on a lease that had run out
		return verdict{status: wire.StatusLost}, w.alg, true
	}
	w.adrift = now.adrift
	for i := range w.wants {
		// What it says it holds there it does not: nothing is held where a move is on.
		k := &w.wants[i]
		if k.state == wire.StateNew && s.isFrozen(k.key) || s.overFrozen(w.alg, k.mode, k.state, pathOf(k.key)) {
			return blockedBy(wire.ReasonUnspecified, k.key, "", k), w.alg, false
		}
	}
	// Its token and its holds count when its turn has come, and not before: when it
	// is looked at depends on what else was freed.
	if v = s.waits(&a); !v.blocked {
		if v, gone = s.hopeless(&a); !gone {
			v = s.relies(&a)
		}
	}
	switch {
	case v.blocked:
		return v, w.alg, false
	case v.status != wire.StatusOK:
		res := v.result()
		s.answer(&w, res)
		s.removeWaiter(seq, false)
		return v, w.alg, true
	}
	s.grant(seq, &w, &a)
	return v, w.alg, true
}

// grant gives a waiter what it waits for.
func (s *State) grant(seq uint64, w *waiter, a *asking) {
	s.removeWaiter(seq, true)
	minted := w.token
	if w.own {
		minted = 0
	}
	if w.alg == wire.Semaphore {
		for _, key := range w.places {
			heap.Push(&s.cursors, cursor{seq: seq + 1, prefix: key[:len(key)-8]})
		}
	}
	g := grant{ttl: w.ttl, releases: w.releases, w: w}
	if g.adrift() {
		g.ttl = min(g.ttl, uint64(w.bind.grace)) // its connection is gone already
	}
	res := s.take(a, minted, g)
	s.quietMark(w.ns) // not before take has asked it
	s.keptGranted(seq, res, a.by)
	first := ""
	if len(w.places) > 0 {
		first = pathOf(w.places[0])
	}
	s.event(wire.EventGrant, w.owner, first, w.ns, res.Token)
	s.answer(w, res)
	if w.open {
		s.leavePoll(a.l)
	}
	if a.l.held() && a.l.deadline <= s.now { // there was no grace
		s.endLease(a.l, s.cfg.ReapBudget)
	}
}
