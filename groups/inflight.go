package groups

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of batches under way.
//
// Raft keeps proposals in the order in which it takes them, but it need not take all:
// while it hands its leadership over it drops some, and one that it passes on to another
// leader can be lost on the way. Nor does it always say so: a proposal whose time is over
// may be applied yet. So nothing is concluded from what raft says of a batch, but that
// something may be wrong with it. A batch is in flight
//
//   - until it is applied (Applied): that is the answer to its commands;
//   - until a later leader epoch is applied (Began): batches of earlier ones do not count
//     any more, so what has not been applied never will be;
//   - until a barrier of the same leader epoch with a higher number is applied (Barrier):
//     numbers only grow, so one that has not come by then comes too late;
//   - until a snapshot takes the place of the entries that would have told (Overtaken), or
//     until another node leads and this one's replica does not get to know of it in time
//     (nothingInFlight): then it is not known, and the commands are asked again as such.
//
// After a batch that may be lost (Gap) no other counts before a barrier, and none is
// proposed: what was is dropped where it is applied. Then all that was lost is queued
// again in its order, before everything else. A barrier can be lost as well; then
// another one follows. So it does not matter whether, or when, the lost one appears in the
// log after all: either it comes before the barrier and is applied, or it does
// not, and never is.

// order is what is known of the batches of the leader epoch that this process holds.
type order struct {
	term    uint64
	gap     uint64 // highest number of one that was lost, or may be
	barrier uint64 // number of the last barrier applied
}

// takeBatch moves the next batch's commands out of the queue, and returns it, nil when
// there are none.
func (l *shardLog) takeBatch(own replica.LeaderEpoch) (f *inFlight) {
	var over, gone []*part
	defer func() {
		l.node.bounce(over)
		l.node.settle(gone, &callerGone)
	}()
	held := l.heldUp(own)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.suspect {
		over = l.weed()
	}
	f, gone = l.nextBatch(own, held)
	return f
}

// nextBatch is takeBatch, with what is queued looked through, when it is known whether the log is held up. It is called
// under the lock.
func (l *shardLog) nextBatch(own replica.LeaderEpoch, held bool) (f *inFlight, gone []*part) {
	// What is forwarded holds up what is in order, and not what comes first. That holds up all else: no time goes on
	// with it, and what is granted, or lasts for a time, must not begin before it was asked for.
	all := l.settled(nil, own.Term) && (!held && !l.endsFirst() || engine.Planted == engine.PlantEndsUntimed)
	f = &inFlight{leaderEpoch: own, number: l.drive.number + 1}
	if f.parts, gone = l.unqueue(all); len(f.parts) == 0 {
		return nil, gone
	}
	if f.untimed = f.parts[0].first; f.untimed {
		l.drive.ends = true // however soon they are carried out: heldUp may not look before
	}
	l.mu.batches[f.number] = f
	return f, gone
}

// unqueue moves as much of the queue as goes into one batch into the writer. A wait whose caller is gone is not
// written, but the end of it that is queued behind it: if it has left the log's queue already, the log would take it
// for a new one, and grant it to nobody. Nor is what its connection asked behind it. What is stale is left to expire.
// It is called under the lock. Unless all may go, only what comes first does.
func (l *shardLog) unqueue(all bool) (written, gone []*part) {
	w := &l.drive.writer
	w.Reset()
	var stale []*part
	now := l.clock.Mono()
	n := 0
	for n < len(l.mu.queue) && !w.Full() && (all || l.mu.queue[n].first) {
		p := l.mu.queue[n]
		switch n++; {
		case p.cutOff():
			gone = append(gone, p)
		case p.stale(now, l.timeout):
			stale = append(stale, p)
		default:
			w.Add(&p.Command, p.attempts())
			written = append(written, p)
		}
	}
	n -= len(stale)
	copy(l.mu.queue[n:], stale)
	rest := copy(l.mu.queue, l.mu.queue[n:])
	clear(l.mu.queue[rest:])
	l.mu.queue = l.mu.queue[:rest]
	return written, gone
}

// cutOff says that a part is not proposed: the connection of its caller is gone, and it is a wait, or came behind one.
func (p *part) cutOff() bool {
	gone := p.gone.Load()
	switch {
	case p.line == nil:
	case gone:
		p.line.cuts(p.came)
	default:
		return p.line.behindCut(p.came)
	}
	return gone
}

// callerGone answers what is not proposed as its connection ended: nobody hears it.
var callerGone = wire.Result{Code: wire.Cancelled, Message: "the connection ended"}

// giveBack puts the commands of a batch that raft did not get to see back in front of
// the queue, and takes its number back.
func (l *shardLog) giveBack(f *inFlight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.batches[f.number] == f { // else a later leader epoch was there first
		l.requeue([]*inFlight{f}, false)
	}
}

// requeue puts the commands of batches that are not on their way any more in front of the
// queue; tried says that they may have been applied. Peers' that were are not asked again
// by this node: it answers them, for unsure to be told of. It is called under the lock.
func (l *shardLog) requeue(lost []*inFlight, tried bool) (unsure []*part) {
	if len(lost) == 0 {
		return nil
	}
	slices.SortFunc(lost, func(a, b *inFlight) int {
		return cmp.Or(cmp.Compare(a.leaderEpoch.Term, b.leaderEpoch.Term), cmp.Compare(a.number, b.number))
	})
	var parts []*part
	for _, f := range lost {
		delete(l.mu.batches, f.number)
		parts = append(parts, f.left()...)
	}
	if tried {
		parts = slices.DeleteFunc(parts, func(p *part) bool {
			p.tried = true
			if p.from != nil {
				unsure = append(unsure, p)
			}
			return p.from != nil
		})
	}
	l.inFront(parts)
	l.mu.suspect = true
	return unsure
}

// inFront queues parts before all others, but for those that come first: these stay before what does not, also
// when they come back behind it. It is called under the lock.
func (l *shardLog) inFront(parts []*part) {
	var ends []*part
	if slices.ContainsFunc(parts, func(p *part) bool { return p.first }) {
		var rest []*part
		for _, p := range parts {
			if p.first {
				ends = append(ends, p)
			} else {
				rest = append(rest, p)
			}
		}
		parts = rest
	}
	l.mu.queue = slices.Insert(slices.Insert(l.mu.queue, l.firsts(), parts...), 0, ends...)
}

// inFlightThat returns the batches in flight that are so. It is called under the lock.
func (l *shardLog) inFlightThat(are func(*inFlight) bool) []*inFlight {
	return slices.DeleteFunc(slices.Collect(maps.Values(l.mu.batches)), func(f *inFlight) bool { return !are(f) })
}

// Applied is called when a batch of this process is applied: it takes the batch off the
// record. Nil when its callers were told already.
func (a *applier) Applied(o replica.LeaderEpoch, number uint64) replica.Callers {
	l := a.shardLog
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.mu.batches[number]
	if f == nil || f.leaderEpoch != o {
		return nil
	}
	delete(l.mu.batches, number)
	f.by = a
	return f
}

// Gap is called when a batch may be lost, or one was dropped behind it.
func (l *shardLog) Gap(term, number uint64) {
	l.mu.Lock()
	if o := &l.mu.order; o.term == term {
		o.gap = max(o.gap, number)
	}
	l.mu.Unlock()
	l.kick()
}

// hasGap reports whether only a barrier counts now.
func (l *shardLog) hasGap() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.order.gap > l.mu.order.barrier
}

// Barrier is called when a barrier is applied.
func (l *shardLog) Barrier(own replica.LeaderEpoch, number uint64) {
	l.mu.Lock()
	if o := &l.mu.order; o.term == own.Term {
		o.barrier = max(o.barrier, number)
	}
	l.requeue(l.inFlightThat(func(f *inFlight) bool { return f.leaderEpoch == own && f.number < number }), false)
	l.mu.Unlock()
	l.kick()
}

// Began is called when a leader epoch is applied. Batches of an earlier one that
// have not been applied never will be: this process's are proposed anew, or
// refused if it no longer leads. Found is the waits that the log has.
func (l *shardLog) Began(o replica.LeaderEpoch, found *replica.OpenCalls) {
	l.mu.Lock()
	l.mu.found = nil
	l.requeue(l.inFlightThat(func(f *inFlight) bool { return f.leaderEpoch.Term < o.Term }), false)
	if l.isOwn(o.Node) && o.Incarnation == l.process {
		l.mu.found = found
		l.held.Store(o.Term) // from now on what is queued is proposed: not before what was lost is
		defer l.node.led(l.shard, o.Term)
	} else {
		l.held.Store(0)
	}
	l.mu.Unlock()
	l.unfollow.Store(true)
	l.kick()
}

// Overtaken is called when a snapshot was installed, which is of a batch of a leader epoch.
func (l *shardLog) Overtaken(o replica.LeaderEpoch, number uint64) {
	l.mu.Lock()
	unsure := l.requeue(l.inFlightThat(func(f *inFlight) bool {
		return f.leaderEpoch.Term < o.Term || f.leaderEpoch == o && f.number <= number
	}), true)
	l.mu.Unlock()
	l.node.unsure(unsure)
	l.missed.Store(true)
	l.unfollow.Store(true)
	l.kick()
}

// nothingInFlight reports whether none of this node's batches is under way, now that another node
// leads in a term. That one proposes nothing before its leader epoch is applied, and so no
// command that it is sent counts before one that this node proposed earlier. It is called
// under the lock.
func (l *shardLog) nothingInFlight(term uint64) (ok bool, unsure []*part) {
	if len(l.mu.batches) == 0 {
		l.mu.overdue = 0
		return true, nil
	}
	lost := l.inFlightThat(func(f *inFlight) bool { return f.leaderEpoch.Term < term })
	switch now := l.clock.Mono(); {
	case len(lost) < len(l.mu.batches):
		return false, nil // it is not the latest leader
	case l.mu.overdue == 0:
		l.mu.overdue = now
		return false, nil
	case now-l.mu.overdue < answerWithin:
		return false, nil
	}
	l.mu.overdue = 0
	return true, l.requeue(lost, true)
}

// expire tells those that waited too long: for what was never proposed, that it
// was not done; for what was, that this is not known.
func (l *shardLog) expire() {
	now, back := l.clock.Mono(), l.hastyBack.Swap(false)
	if now-l.looked < min(l.timeout/8, waitSlack) {
		if back {
			l.expireHasty()
		}
		return
	}
	l.looked = now
	// What comes first in a leader epoch has nobody who waits for it. It is proposed, however late: until then no time
	// goes on.
	mine := l.mine()
	late := func(p *part) bool { return (!p.first || p.term != mine) && p.late(now, l.timeout) }
	var undone, unknown, unled []*part
	none := l.unled()
	tooLong := late
	if none != nil { // who does not want to wait has waited as long as an election takes
		late = func(p *part) bool { return p.hasty || tooLong(p) }
	}
	if l.lead.Load().leader == 0 || l.stalled() > 0 { // else whoever leads ends what is attached here
		unknown = l.node.attached(l, late)
	}
	l.mu.Lock()
	// What was forwarded a moment ago comes back, refused (expireHasty): to say before that nobody knows what became of
	// it would leave it to luck what a client is told. What joins a lane that is older is not waited for: a refusal
	// ends such a lane within answerWithin.
	away := late
	if now-l.mu.forwarded.since < askWithin {
		away = tooLong
	}
	unknown = append(unknown, l.forwardedTooLong(away)...) // which may bring others back to the queue
	waited := func(p *part) bool {
		switch {
		case none != nil && p.hasty && !p.tried:
			unled = append(unled, p)
		case !late(p):
			return false
		case p.tried:
			unknown = append(unknown, p)
		default:
			undone = append(undone, p)
		}
		return true
	}
	l.mu.queue = slices.DeleteFunc(l.mu.queue, waited)
	l.mu.forwarded.back = slices.DeleteFunc(l.mu.forwarded.back, waited)
	for _, number := range slices.Sorted(maps.Keys(l.mu.batches)) {
		f := l.mu.batches[number]
		unknown = append(unknown, f.forget(late)...)
		if len(f.left()) == 0 {
			delete(l.mu.batches, number)
		}
	}
	l.mu.Unlock()
	over, ended := l.waitsOver(&unknown)
	for _, p := range undone {
		if p.waits && p.from == nil && p.askedBefore() { // it may have the place that it had then
			ended = append(ended, p.unheardWait())
		}
	}
	for _, w := range ended { // before their connections end on what they are told
		l.node.waits.gives(w, now)
	}
	l.node.settle(undone, &wire.Result{Code: wire.Unavailable, Message: l.untaken()})
	if none != nil {
		l.settleUnled(none, unled, unknown)
	} else {
		l.node.settle(unknown, &outcomeUnknown)
	}
	for _, w := range ended { // before they are answered: what they ask then comes behind it
		l.node.endWait(w)
	}
	l.node.settle(over, &waitUnheard)
}

// expireHasty is expire of those that came back from a node which leads no more, and do not want to wait. They are
// looked at as soon as they are back: they are sent there again a moment later, and on their way most of the time.
func (l *shardLog) expireHasty() {
	none := l.unled()
	if none == nil {
		return
	}
	var unled, unknown []*part
	waited := func(p *part) bool {
		switch {
		case !p.hasty:
			return false
		case p.tried:
			unknown = append(unknown, p)
		default:
			unled = append(unled, p)
		}
		return true
	}
	l.mu.Lock()
	l.mu.queue = slices.DeleteFunc(l.mu.queue, waited)
	l.mu.forwarded.back = slices.DeleteFunc(l.mu.forwarded.back, waited)
	l.mu.Unlock()
	l.settleUnled(none, unled, unknown)
}

// settleUnled answers those that were not proposed, and those of which nobody knows, in a log without a leader.
func (l *shardLog) settleUnled(none *wire.Error, unled, unknown []*part) {
	if len(unled) > 0 {
		l.node.settle(unled, &wire.Result{Code: none.Code, Message: none.Message})
	}
	_, why := l.node.noLeader(l.shard)
	unheard := outcomeUnknown
	unheard.Message = why + "; " + unheard.Message
	l.node.settle(unknown, &unheard)
}

// untaken tells of a request that no leader took in time.
func (l *shardLog) untaken() string {
	const message = "no leader took the request within request_timeout_ms; nothing was done"
	if !l.leaderless() {
		return message
	}
	_, why := l.node.noLeader(l.shard)
	return message + ": " + why
}

// waitsOver takes those that have a place in the queue out of the late, and names their
// waits: who was told that the time is over must not be granted anything later. Nor must who was told that nothing is
// known, and may have gone: if it asks again, it waits again.
func (l *shardLog) waitsOver(late *[]*part) (over []*part, ended []wait) {
	*late = slices.DeleteFunc(*late, func(p *part) bool {
		switch {
		case !p.waits:
		case p.from == nil:
			ended = append(ended, p.unheardWait())
		default: // it may have been asked elsewhere since, which its own node alone knows
			l.node.leftAlone(p)
		}
		told := p.told.Load()
		if told {
			over = append(over, p)
		}
		return told
	})
	return over, ended
}

// waitUnheard answers a wait whose time is over while its leader cannot be heard: it may
// have been granted.
var waitUnheard = wire.Result{
	Code: wire.DeadlineExceeded,
	Message: "waited for the lock until queue_ttl_ms was over, and the log's leader did not answer: " +
		"the outcome is not known; repeat the request with the same idempotency_key or request id",
}

// overdueAt is when batches in flight are not waited for any more. It is called under the lock.
func (l *shardLog) overdueAt() (time.Duration, bool) {
	if l.mu.overdue == 0 || len(l.mu.batches) == 0 || l.mine() != 0 {
		return 0, false
	}
	return l.mu.overdue + answerWithin, true
}
