package engine

import (
	"cmp"
	"slices"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// A connection that closes shrinks the leases that are tied to it to their grace, and those that
// polled places tied to it are to bring. There may be hundreds of thousands of them: more than one
// step may take time for. What a step does not come to is left to later ones, in order of the
// leases' keys, and counts from when the connection closed. Whoever changes such a lease before
// its turn has come sees to it first; else it could be renewed, and then shrunk. Whoever only looks
// at one counts with what would be left of it then (ends).
//
// A lease may have several departures before it: it is tied to several sessions, and one that came
// back may have gone again. Which of them is the last decides what is left. So whatever comes to a
// lease, a departure's step or a command, carries out all that it has before it, in the order in
// which the connections closed.
//
// What came to be after a departure is none of its, though it be of an earlier connection: a request that
// was held up there is carried out late, and its session may have moved on to a later one since. Epochs do not
// tell that, so what a departure could take for its own notes the last that was there before it (State.past).

// departure is a connection of a session that closed, and not all leases that are tied to it
// were seen to. It is kept by session and arrival number, which is its rank; waiters have theirs of the same count.
type departure struct {
	session Session
	arrival uint64
	epoch   uint64 // connections up to this one are gone
	at      int64  // since then, ms of the lease clock
	after   string // leases up to this key were seen to
	born    uint32
}

func (d *departure) row(dst []byte) []byte {
	dst = wire.AppendInt(wire.AppendUint(wire.AppendArray(dst, 3), d.epoch), d.at)
	return wire.AppendStr(dst, d.after)
}

// departures are connections that closed.
type departures = trie.Tree[departure]

// newDeparture makes one by its key.
func newDeparture(of *departures, w *trie.Writer, key string) *departure {
	d := of.Insert(w, key, classWait, seqOf(key))
	copy(d.session[:], key)
	d.arrival = seqOf(key)
	return d
}

// eachDeparture calls f with those of a session, in order of arrival, until it answers false.
func eachDeparture(of *departures, id *Session, f func(*departure) bool) {
	if !of.Empty() {
		of.Sub(view(id[:])).Ascend(func(_ string, d *departure) bool { return f(d) })
	}
}

// past is the arrival number of the last departure that would end what is tied to a connection of a session, or
// asked on it, from now on: it does not, for it came before. It is 0 when there is none.
func (s *State) past(id Session, epoch uint64) (last uint64) {
	eachDeparture(&s.departing, &id, func(d *departure) bool {
		if epoch <= d.epoch {
			last = d.arrival
		}
		return true
	})
	return last
}

// fresh is a tie that comes to be now.
func (s *State) fresh(b *binding) *binding {
	if b == nil || b.loose || s.departing.Empty() {
		return b
	}
	past := s.past(b.session, b.epoch)
	if past == b.past {
		return b
	}
	anew := *b
	anew.past = past
	return &anew
}

// endsTie says that a departure is of the connection that a tie is to, or of a later one.
func (d *departure) endsTie(b *binding) bool {
	return b.epoch <= d.epoch && b.spent <= d.epoch && b.past < d.arrival
}

// maxDepartures is how many of one session are kept, each with its own connection and time: to let two count as one
// would have a lease live again that counted as over. When one more comes, the oldest is carried out at once,
// whatever that costs: only who comes and goes all the time, with very many leases, gets that far.
const maxDepartures = 64

// detach shrinks the leases that are tied to a connection that is gone to their
// grace. A lease that a later connection of the session renewed since is left
// alone. The end of an earlier connection may come behind that of a later one: it finds what was tied to
// the earlier one since. What the later one has parted stays as it is (part).
func (s *State) detach(cmd *Command) (res wire.Result) {
	id := cmd.Caller.Session
	s.seq++ // whether it has anything to end may depend on what others have come to
	if s.ties[id] == nil && s.calls[id] == nil {
		return res
	}
	n, oldest := 0, ""
	s.departing.Sub(view(id[:])).Ascend(func(key string, _ *departure) bool {
		if n++; n == 1 {
			oldest = key
		}
		return true
	})
	if n >= maxDepartures {
		s.depart(oldest, everything)
	}
	key := string(appendSeq(id[:], s.seq))
	d := newDeparture(&s.departing, s.w, key)
	d.epoch, d.at, d.born = cmd.Epoch, s.now, s.w.Mark()
	s.depart(key, s.cfg.DepartAtOnce)
	return res
}

// departed drops a departure.
func (s *State) departed(key string, born uint32) {
	s.addTombstone(tableDeparture, key, born)
	s.departing.Remove(s.w, key)
}

// depart goes on with a departure, and answers what that cost, at least 1.
func (s *State) depart(of string, budget int) (cost int) {
	d := s.departing.Get(of)
	id := d.session
	if d.after == "" { // its waits first, so that they are not granted what it held
		if cost = s.leaveCalls(id, d, budget); cost >= budget {
			return cost
		}
	}
	ties := s.ties[id]
	for cost < budget {
		d := s.departing.Edit(s.w, of)
		key, ok := "", false
		if ties != nil {
			key, _, ok = ties.Ceiling("", d.after, 0)
			if ok && key == d.after { // it was seen to, and is still tied
				key, _, ok = ties.Ceiling("", key+"\x00", 0)
			}
		}
		if !ok {
			s.departed(of, d.born)
			return max(cost, 1)
		}
		cost += s.shrink(key, budget-cost)
		d.after = key
	}
	return cost
}

// shrink sees to one lease and answers what that cost, at least 1.
func (s *State) shrink(key string, budget int) int {
	l := s.leases.Edit(s.w, key)
	was := l.deadline
	if s.meets(l); l.deadline == was || l.deadline > s.now {
		return 1
	}
	return s.endLease(l, budget)
}

// part has a lease's tie end with its connection: the lease is shrunk if it hangs on no other, but
// not to less than was pledged to those that ended before. It answers the tie that it has no more.
func (l *lease) part(d *departure, c *Config) (gone *binding) {
	b := l.tieOf(d.session)
	if b == nil || !d.endsTie(b) {
		return nil
	}
	l.pledge(d.at, pledge{session: b.session, until: c.since(d.at, b.grace), over: d.epoch + 1, grace: b.grace})
	if len(l.also) > 0 {
		l.without(b)
		return b
	}
	spent := *b
	spent.spent = d.epoch + 1
	l.bind = &spent
	l.deadline = min(l.deadline, leaseEnd(l.pledged()))
	return nil
}

// pending are the departures that a lease has before it, in order of arrival, in room if they fit.
func pending(of *departures, l *lease, key string, room []*departure) (ds []*departure) {
	if of.Empty() || l.bind == nil {
		return nil
	}
	ds = room
	add := func(b *binding) {
		if b.loose {
			return
		}
		eachDeparture(of, &b.session, func(d *departure) bool {
			if d.endsTie(b) && key > d.after {
				ds = append(ds, d)
			}
			return true
		})
	}
	add(l.bind)
	for _, b := range l.also {
		add(b)
	}
	slices.SortFunc(ds, func(a, b *departure) int { return cmp.Compare(a.arrival, b.arrival) })
	return ds
}

// ends is when a lease ends once all is carried out that it has before it. It changes nothing.
func ends(of *departures, c *Config, l *lease, key string) int64 {
	if of.Empty() || l.bind == nil {
		return l.deadline
	}
	if len(l.also) == 0 && len(l.pledges) == 0 { // the first decides
		until := l.deadline
		if b := l.bind; !b.loose {
			eachDeparture(of, &b.session, func(d *departure) bool {
				if !d.endsTie(b) || key <= d.after {
					return true
				}
				until = min(until, leaseEnd(c.since(d.at, b.grace)))
				return false
			})
		}
		return until
	}
	var room [2]*departure
	ds := pending(of, l, key, room[:0])
	if len(ds) == 0 {
		return l.deadline
	}
	then := *l
	for _, d := range ds {
		then.part(d, c)
	}
	return then.deadline
}

// pledge notes at an instant until when a lease is to last for a session whose connection ended.
func (l *lease) pledge(now int64, to pledge) {
	kept := make([]pledge, 0, len(l.pledges)+1)
	for _, p := range l.pledges {
		switch {
		case p.until <= now:
		case p.of(to.session):
			if to.until = max(to.until, p.until); to.over == 0 {
				to.over, to.grace = p.over, p.grace
			}
		default:
			kept = append(kept, p)
		}
	}
	if len(kept) == maxTies {
		kept[1] = pledge{until: max(kept[0].until, kept[1].until), several: true}
		kept = kept[1:]
	}
	l.pledges = append(kept, to)
}

// again is the tie of a session that keeps a lease on a connection after the one that it is tied to, or was, or on any
// within the grace that the end of that one left it; nil for none, and a loose one if the lease lasts for such a grace
// and is kept without a tie: a repeat gives it its time all the same. Whether that end comes before or after makes no
// difference. What was held up on a connection before that one hangs on its own, whose end is to come.
func (l *lease) again(id Session, epoch uint64, now int64) *binding {
	if b := l.tieOf(id); b != nil && b.epoch < epoch && b.spent <= b.epoch {
		return &binding{session: id, epoch: epoch, grace: b.grace}
	}
	for i := range l.pledges {
		switch p := &l.pledges[i]; {
		case !p.of(id) || p.until <= now:
		case p.over == 0:
			return &binding{loose: true}
		default:
			return &binding{session: id, epoch: epoch, grace: p.grace}
		}
	}
	return nil
}

// forswear has a session no tie any more when it keeps the lease: it gave it up.
func (l *lease) forswear(id Session) {
	for i := range l.pledges {
		if l.pledges[i].of(id) && l.pledges[i].over != 0 {
			l.pledges = slices.Clone(l.pledges)
			l.pledges[i].over, l.pledges[i].grace = 0, 0
		}
	}
}

// redeem lets go of what was pledged to a session that ties the lease anew.
func (l *lease) redeem(to Session) {
	if slices.ContainsFunc(l.pledges, func(p pledge) bool { return p.of(to) }) {
		l.pledges = slices.DeleteFunc(slices.Clone(l.pledges), func(p pledge) bool { return p.of(to) })
	}
}

// of says that a pledge is to one session.
func (p *pledge) of(id Session) bool { return !p.several && p.session == id }

// pledged is the latest instant that was pledged.
func (l *lease) pledged() (until int64) {
	for i := range l.pledges {
		until = max(until, l.pledges[i].until)
	}
	return until
}

// meets sees to a lease that is about to be changed, or that decides whether others may be let in.
func (s *State) meets(l *lease) {
	if s.departing.Empty() || l.bind == nil && l.poll == 0 {
		return
	}
	s.castOff(l)
	var room [2]*departure
	was := l.deadline
	for _, d := range pending(&s.departing, l, l.timer.key, room[:0]) {
		s.noteTie(l, l.part(d, &s.cfg))
	}
	if l.deadline != was {
		s.deadlines.arm(l.timer, l.deadline)
	}
}

// castOff notes for an owner's polled place that the connection it is tied to ended: what it is
// granted from now on lasts for no more than the grace.
func (s *State) castOff(l *lease) {
	w := s.polled(l)
	if w == nil || w.adrift || w.bind == nil {
		return
	}
	eachDeparture(&s.departing, &w.bind.session, func(d *departure) bool {
		if !d.endsTie(w.bind) || l.timer.key <= d.after {
			return true
		}
		s.editWaiter(l.poll).adrift = true
		return false
	})
}

// unsettled says that something may be over that was not ended yet.
func (s *State) unsettled() bool { return !s.departing.Empty() || s.overdue() }
