package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// place is a waiter's wish for one path, in the tree that finds waiters by path.
// The leaf's rank is the waiter's arrival number.
type place struct {
	owner   string
	permits uint32
}

// waiter is a queued request: a polled entry, of which an owner has one in each
// namespace, or an acquire whose call is open.
type waiter struct {
	owner    string
	ns       string
	alg      wire.Algorithm
	wants    []want   // keys are the state's own; never changed in place
	places   []string // keys in the queue, of the wants that are new
	counts   int      // how many paths it counts for: weight
	of       uint64   // the session that queued it (markOf), 0 for none
	releases []wire.ReleaseRequest
	token    int64 // what it will hold: its own, or minted; 0 when it needs none
	own      bool  // token is the caller's own
	open     bool  // a call waits for the answer
	caller   Caller
	hash     uint64 // of the request of an open call
	epoch    uint64 // connection of the caller's session that the call is on
	past     uint64 // ends of connections up to this arrival number were told before it was asked there: State.past
	adrift   bool   // that connection is gone, and a grace runs; of a polled entry: the one it is tied to
	ttl      uint64 // of the lease it will get, ms
	deadline int64  // when it leaves the queue, ms of the lease clock
	since    int64  // wall time of its arrival, Unix ms
	bind     *binding
	meta     *string
	timer    *timer
	born     uint32
}

// queueMillis is how long a request may wait that asked for ttl ms.
func (s *State) queueMillis(ttl uint64) int64 {
	if ttl == 0 {
		return int64(s.cfg.QueueMillis)
	}
	return int64(ttl)
}

// waiter is the one with an arrival number, to look at.
func (s *State) waiter(seq uint64) *waiter {
	var b [8]byte
	return s.waiters.Get(view(appendSeq(b[:0], seq)))
}

// late says that a waiter's time in the queue is over, though it is still there:
// it keeps nobody waiting and gets nothing.
func (s *State) late(w *waiter) bool {
	if w.deadline <= s.now {
		return true
	}
	d := s.leftBehind(w)
	return d != nil && s.since(d.at, w.tieGrace()) <= s.now
}

// editWaiter is the same to be changed.
func (s *State) editWaiter(seq uint64) *waiter {
	var b [8]byte
	return s.waiters.Edit(s.w, view(appendSeq(b[:0], seq)))
}

// earliest finds the first waiter of another owner than l's (of any, with l nil), with an
// arrival number in [from, before), that a request for a path conflicts with
// (contract.md section 7): on the path unless both read, above it or below it if
// the upper one is a recursive write. It answers 0 when there is none. Who waited
// too long already does not count.
func (s *State) earliest(key string, write, recursive bool, l *lease, from, before uint64) (seq uint64, at string) {
	overdue := s.overdue() || !s.departing.Empty()
	own := l != nil && !l.waits.Empty() // very many, maybe: they are not looked at one by one where nobody else waits
	found := func(k string, p *place) bool {
		rank := seqOf(k)
		if l != nil && p.owner == l.owner || overdue && s.late(s.waiter(rank)) {
			return false
		}
		seq, at, before = rank, k, rank
		return true
	}
	on := func(st trie.Step[place], path, suffix string) { // its keys are in order of arrival
		prefix := s.suffixed(path, suffix)
		if first := st.Sub(prefix).First(); first == 0 || first >= before {
			return
		}
		if own {
			s.keys2 = appendSeq(append(s.keys2[:0], prefix...), before)
			if last := view(s.keys2); s.queue.Before(prefix, last, classWait) == l.waits.Before(prefix,
				last, classWait) {
				return
			}
		}
		for next := from; ; {
			s.keys2 = appendSeq(append(s.keys2[:0], prefix...), next)
			k, p, ok := s.queue.Ceiling(prefix, view(s.keys2), 0)
			if !ok || seqOf(k) >= before || found(k, p) {
				return
			}
			next = seqOf(k) + 1
		}
	}
	below := func(sub trie.Sub[place]) {
		if first := sub.First(); first == 0 || first >= before {
			return
		}
		if own && sub.Count(classWait) == l.waits.Sub(s.suffixed(key, "/")).Count(classWait) {
			return
		}
		for it := sub.ByRank(from); ; {
			k, rank, p, ok := it.Next()
			if !ok || rank >= before || rank >= from && found(k, p) {
				return
			}
		}
	}
	s.queue.Walk(key, func(n int, st trie.Step[place]) bool {
		if n < len(key) {
			if recursive && isBoundary(key, n) {
				on(st, key[:n], writeQueue)
			}
			return true
		}
		on(st, key, writeQueue)
		if write {
			on(st, key, readQueue)
			if recursive {
				below(st.Sub(s.suffixed(key, "/")))
			}
		}
		return false
	})
	return seq, at
}

// polled is the owner's polled entry, nil if it has none.
func (s *State) polled(l *lease) *waiter {
	if l.poll == 0 {
		return nil
	}
	return s.waiter(l.poll)
}

// pollFor answers the owner's polled entry if it asks for what a asks for, and
// then gives a its place in the queue.
func (s *State) pollFor(a *asking) *waiter {
	if a.l.poll == 0 {
		return nil
	}
	w := s.waiter(a.l.poll)
	if s.late(w) || !sameWants(w.wants, a.wants) {
		return nil
	}
	a.seq = a.l.poll
	return w
}

// sameWants says that two requests name the same paths in the same modes.
func sameWants(a, b []want) bool {
	same := func(x, y want) bool { return x.key == y.key && x.mode == y.mode && x.state == y.state }
	if slices.EqualFunc(a, b, same) {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	order := func(x, y want) int {
		if c := strings.Compare(x.key, y.key); c != 0 {
			return c
		}
		return int(x.mode)*2 + int(x.state) - int(y.mode)*2 - int(y.state)
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return slices.EqualFunc(a, b, same)
}

// enqueue puts a request that v stands in the way of into the queue, or confirms
// entry, the place it has there.
func (s *State) enqueue(cmd *Command, a *asking, entry *waiter, v verdict) wire.Result {
	req := cmd.Req
	open := req.Flags&wire.FlagWait != 0
	if err := s.room(cmd, a, entry); err != nil {
		var res wire.Result
		res.Fail(err)
		return res
	}
	res := v.result()
	if a.l == nil {
		a.l = s.enter(a.owner, a.ns)
	}
	var w *waiter
	switch {
	case entry != nil:
		w = s.editWaiter(a.seq)
	default:
		if old := a.l.poll; old != 0 && !open {
			s.removeWaiter(old, false)
			a.l = s.enter(a.owner, a.ns)
		}
		w = s.join(cmd, a, open)
	}
	if a.own && a.token > w.token {
		w.token, w.own = a.token, true
	}
	w.ttl = req.TTLMillis
	w.releases = ownReleases(req.Releases)
	s.weigh(w)
	s.hang(a.l, w, a.l.bound(cmd))
	w.meta = s.metaFor(a.l, grantOf(cmd))
	w.deadline = s.after(s.queueMillis(req.QueueTTLMillis))
	s.deadlines.arm(w.timer, w.deadline)
	s.asked = seqOf(w.timer.key)
	res.Token, res.Namespace = w.token, a.l.ns
	res.Position = s.position(s.asked, w)
	return res
}

// join makes a new waiter at the tail of the queue.
func (s *State) join(cmd *Command, a *asking, open bool) *waiter {
	s.seq++
	var b [8]byte
	seqKey := string(appendSeq(b[:0], s.seq))
	w := s.waiters.Insert(s.w, seqKey, trie.None, 0)
	w.owner, w.ns, w.alg, w.since, w.born = a.l.owner, a.l.ns, a.alg, s.wall, s.w.Mark()
	w.of = markOf(cmd.Caller.Session)
	w.timer = s.deadlines.timer(timeWaiter, seqKey)
	w.wants = make([]want, len(a.wants))
	for i, ask := range a.wants {
		w.wants[i] = ask
		s.addPlace(w, a.l, &w.wants[i], seqKey)
	}
	if open {
		w.open, w.caller, w.hash, w.epoch = true, cmd.Caller, cmd.hash(), cmd.Epoch
		w.past = s.past(cmd.Caller.Session, cmd.Epoch)
		s.openCall(w.caller, s.seq)
	} else {
		a.l.poll = s.seq
	}
	switch {
	case a.own:
		w.token, w.own = a.token, true
	default:
		w.token = s.expected(a)
	}
	return w
}

// addPlace puts one wish of a waiter into the queue, and makes its key the
// state's own. What is said to be held needs no place.
func (s *State) addPlace(w *waiter, l *lease, k *want, seqKey string) {
	if k.state == wire.StateHeld {
		k.key = owned(k.key)
		s.noteRelying(l, seqOf(seqKey))
		return
	}
	suffix := writeQueue
	if k.mode == wire.ModeRead {
		suffix = readQueue
	}
	key := k.key + suffix + seqKey
	k.key = key[:len(k.key)]
	if s.queue.Get(key) != nil {
		return // the request names the path twice
	}
	p := s.queue.Insert(s.w, key, classWait, seqOf(seqKey))
	p.owner, p.permits = w.owner, k.permits
	l.waits.Insert(s.w, key, classWait, 0)
	w.places = append(w.places, key)
}

// expected is the token that a request without one of its own will hold: the one
// it has when it writes all its paths already, else a new one.
func (s *State) expected(a *asking) int64 {
	if token, keeps := s.heldToken(a); keeps {
		return token
	}
	for i := range a.wants {
		if a.alg != wire.Semaphore && a.wants[i].mode == wire.ModeWrite {
			return s.mint()
		}
	}
	return 0
}

// pathCost is what a path in a waiter counts for beside its own length, bytes. It is never
// changed: replicas count by it.
const pathCost = 64

// weight is how many paths a request counts for that waits for so many: at least one for as many
// bytes as a path may have, as what it says it holds, and is to release, is kept as well.
func weight(paths int, wants []want, releases []wire.ReleaseRequest) int {
	bytes := 0
	for i := range wants {
		bytes += min(len(wants[i].key)-keyHead+pathCost, wire.MaxPathBytes)
	}
	for i := range releases {
		bytes += min(len(releases[i].Path)+pathCost, wire.MaxPathBytes)
	}
	return max(paths, bytes/wire.MaxPathBytes)
}

// weigh counts a waiter as it is now.
func (s *State) weigh(w *waiter) {
	was := w.counts
	w.counts = weight(len(w.places), w.wants, w.releases)
	s.waited += w.counts - was
	s.queued[w.owner] += w.counts - was
	s.queuers.add(w.of, w.counts-was)
}

// room refuses a waiter, or what an entry is to become, that the queue has no room for. An entry that another session
// confirms stays with the one that queued it.
func (s *State) room(cmd *Command, a *asking, entry *waiter) *wire.Error {
	req, of := cmd.Req, markOf(cmd.Caller.Session)
	paths, leaving, its := 0, 0, 0 // its: what leaves of the session's
	for i := range a.wants {
		if a.wants[i].state == wire.StateNew {
			paths++
		}
	}
	switch {
	case entry != nil:
		paths, leaving, its, of = len(entry.places), entry.counts, entry.counts, entry.of
	case a.l != nil && a.l.poll != 0 && req.Flags&wire.FlagWait == 0:
		old := s.waiter(a.l.poll)
		if leaving = old.counts; old.of == of {
			its = leaving
		}
	}
	n := weight(paths, a.wants, req.Releases)
	if entry != nil && n <= leaving {
		return nil
	}
	if s.waited+n-leaving > s.cfg.MaxQueued {
		return wire.Errorf(wire.ResourceExhausted,
			"the queue of this group holds %d paths and %d more were asked for, at most %d are allowed "+
				"(max_queued_paths_per_group)",
			s.waited, n, s.cfg.MaxQueued)
	}
	if mine := s.queued[a.owner]; mine+n-leaving > s.cfg.MaxQueued/4 {
		return wire.Errorf(wire.ResourceExhausted,
			"owner_id: waits for %d paths in this group and asked for %d more, at most %d are allowed (a quarter of "+
				"max_queued_paths_per_group)",
			mine, n, s.cfg.MaxQueued/4)
	}
	if mine, most := s.queuers[of], share(s.cfg.MaxQueued); of != 0 && mine+n-its > most {
		return wire.Errorf(wire.ResourceExhausted,
			"session: waits for %d paths in this group and asked for %d more, at most %d are allowed (a quarter of "+
				"max_queued_paths_per_group)",
			mine, n, most)
	}
	return nil
}

func ownReleases(rs []wire.ReleaseRequest) []wire.ReleaseRequest {
	if len(rs) == 0 {
		return nil
	}
	out := make([]wire.ReleaseRequest, len(rs))
	for i, r := range rs {
		out[i] = wire.ReleaseRequest{Path: owned(r.Path), Mode: r.Mode}
	}
	return out
}

// position is a waiter's place on the path where it is furthest back, from 1.
func (s *State) position(seq uint64, w *waiter) uint64 {
	ahead := uint32(0)
	var b [8]byte
	seqKey := appendSeq(b[:0], seq)
	for _, p := range w.places {
		key := p[:len(p)-queueSuffix]
		n := uint32(0)
		for _, suffix := range [...]string{writeQueue, readQueue} {
			prefix := s.suffixed(key, suffix)
			s.keys2 = append(append(s.keys2[:0], prefix...), seqKey...)
			n += s.queue.Before(prefix, view(s.keys2), classWait)
		}
		ahead = max(ahead, n)
	}
	return uint64(ahead) + 1
}

// removeWaiter takes a waiter out of the queue. Unless it was granted, what it
// kept others from becomes free.
func (s *State) removeWaiter(seq uint64, granted bool) {
	w := *s.waiter(seq)
	l := s.leases.Edit(s.w, s.leaseKey(w.owner, w.ns))
	for _, key := range w.places {
		s.queue.Remove(s.w, key)
		l.waits.Remove(s.w, key)
		if !granted {
			at := len(key) - queueSuffix
			s.freed = append(s.freed, freed{
				key: key[:at], write: key[at:at+len(writeQueue)] == writeQueue,
				recursive: w.alg.Recursive(), since: seq, by: w.owner,
			})
		}
	}
	if of := s.relying[l.timer.key]; of != nil {
		if delete(of, seq); len(of) == 0 {
			delete(s.relying, l.timer.key)
		}
	}
	s.waited -= w.counts
	s.queuers.add(w.of, -w.counts)
	if s.queued[w.owner] -= w.counts; s.queued[w.owner] <= 0 {
		delete(s.queued, w.owner)
	}
	if w.open {
		s.closeCall(w.caller, seq)
	}
	if l.poll == seq {
		l.poll = 0
		s.noteTie(l, w.bind)
	}
	s.addTombstone(tableWaiter, w.timer.key, w.born)
	s.waiters.Remove(s.w, w.timer.key)
	s.deadlines.free(w.timer)
	if !granted {
		s.quietMark(w.ns)
		s.leaveIfIdle(l)
	}
}

// quietMark forgets up to which token queued requests of a namespace are stale
// once none waits there.
func (s *State) quietMark(ns string) {
	if s.marks.Empty() || s.marks.Get(ns) == nil {
		return
	}
	s.key2 = appendKey(s.key2[:0], ns, ns)
	if s.queue.SubBytes(s.key2).Empty() {
		s.marks.Delete(s.w, ns)
		s.addTombstone(tableMark, ns, 0)
	}
}

// answer ends a waiter's open call; a polled entry has none.
func (s *State) answer(w *waiter, res wire.Result) {
	if w.open {
		left := w.adrift && (res.Code == wire.Cancelled || res.Code == wire.DeadlineExceeded)
		s.out.Answers = append(s.out.Answers, Answer{w.caller, res, left, w.ns})
	}
}

// abort removes a waiter and refuses its call.
func (s *State) abort(seq uint64, err *wire.Error) {
	w := s.waiter(seq)
	var res wire.Result
	res.Fail(err)
	s.answer(w, res)
	s.removeWaiter(seq, false)
}

// waiterOver ends a waiter whose time in the queue is over.
func (s *State) waiterOver(seq uint64) {
	s.meetsCall(seq) // its connection may have ended, and the departure not have come to it
	if s.waiter(seq) != nil {
		s.abort(seq, wire.Errorf(wire.DeadlineExceeded,
			"waited for the lock until queue_ttl_ms was over").By(wire.CauseWaitOver))
	}
}

// GraceOfTie is the grace of a wait whose connection ended (wire.OpCancelWait, Request.Kinds): that of what its lease
// is to be tied to. Whoever tells it does not know that: the owner may have been bound, or unbound, since it waits.
const GraceOfTie = 1

// tieGrace is how long the waiter outlives its connection, ms.
func (w *waiter) tieGrace() int64 {
	if w.bind == nil {
		return 0
	}
	return w.bind.grace
}

// cancelWait ends the wait of a session's request, or leaves it a grace in which
// the session may come back and ask again. It answers CANCELLED when it ended one.
func (s *State) cancelWait(cmd *Command) (res wire.Result) {
	seq := s.callOf(Caller{cmd.Caller.Session, cmd.Req.Target})
	if seq == 0 {
		return res
	}
	if s.waiter(seq).epoch > cmd.Epoch {
		return res // the session came back and asked again
	}
	if s.meetsCall(seq); s.waiter(seq) == nil {
		return res // the connection that it was asked on had ended
	}
	grace := int64(cmd.Req.GraceMillis)
	if cmd.Req.Kinds == GraceOfTie {
		grace = s.waiter(seq).tieGrace()
	}
	if grace > 0 {
		w := s.editWaiter(seq)
		w.adrift = true
		if at := s.after(grace); at < w.deadline {
			w.deadline = at
			s.deadlines.arm(w.timer, w.deadline)
		}
		return res
	}
	s.editWaiter(seq).adrift = !cmd.Req.Explicit // else nobody wants it any more
	s.abort(seq, wire.Errorf(wire.Cancelled, "the waiting acquire was cancelled"))
	return res
}

// noteRelying notes that a waiter of an ownership record says that it holds something.
func (s *State) noteRelying(l *lease, seq uint64) {
	of := s.relying[l.timer.key]
	if of == nil {
		of = make(map[uint64]struct{})
		s.relying[l.timer.key] = of
	}
	of[seq] = struct{}{}
}

// dropRelying removes the requests of an owner that say they hold something in a
// namespace where it holds nothing any more: they can never succeed. What else it waits
// for is not looked at: that may be very much, and its last hold goes often.
func (s *State) dropRelying(l *lease) {
	if len(s.relying) == 0 {
		return
	}
	for _, seq := range slices.Sorted(maps.Keys(s.relying[l.timer.key])) {
		s.answer(s.waiter(seq), wire.Result{Status: wire.StatusLost, Reason: wire.ReasonMissingAlive})
		s.removeWaiter(seq, false)
	}
}

// OpenCall is the request of a waiter whose call is open, and the connection of its session
// that it was asked on last.
type OpenCall struct {
	Caller
	Epoch uint64
}

// OpenCalls lists the requests of waiters whose calls are open, in order of arrival.
func (s *State) OpenCalls() []OpenCall {
	var seqs []uint64
	for _, of := range s.calls {
		seqs = slices.AppendSeq(seqs, maps.Values(of.waiting))
	}
	slices.Sort(seqs)
	open := make([]OpenCall, len(seqs))
	for i, seq := range seqs {
		w := s.waiter(seq)
		open[i] = OpenCall{w.caller, w.epoch}
	}
	return open
}

// AnyOpen says that there are open calls.
func (s *State) AnyOpen() bool { return len(s.calls) > 0 }

// OpenCalls lists the requests of waiters whose calls are open and whose sessions are, in order of arrival.
func (v *View) OpenCalls(are func(Session) bool) (open []OpenCall) {
	v.waiters.All().Ascend(func(_ string, w *waiter) bool {
		if w.open && are(w.caller.Session) {
			open = append(open, OpenCall{w.caller, w.epoch})
		}
		return true
	})
	return open
}
