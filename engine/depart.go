package engine

import (
	"slices"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// A connection that closes shrinks the leases that are tied to it to their grace, and those that
// polled places tied to it are to bring. There may be hundreds of thousands of them: more than one
// step may take time for. What a step does not come to is left to later ones, in order of the
// leases' keys, and counts from when the connection closed. Whoever changes such a lease before
// its turn has come sees to it first; else it could be renewed, and then shrunk.

// departure is a connection of a session that closed, and not all leases that are tied to it
// were seen to. It is kept by session.
type departure struct {
	epoch uint64 // connections up to this one are gone
	at    int64  // since then, ms of the lease clock
	after string // leases up to this key were seen to
	born  uint32
}

func (d *departure) row(dst []byte) []byte {
	dst = wire.AppendInt(wire.AppendUint(wire.AppendArray(dst, 3), d.epoch), d.at)
	return wire.AppendStr(dst, d.after)
}

// detach shrinks the leases that are tied to a connection that is gone to their
// grace. A lease that a later connection of the session renewed since is left
// alone.
func (s *State) detach(cmd *Command) (res wire.Result) {
	id := cmd.Caller.Session
	if s.ties[id] == nil && s.calls[id] == nil {
		return res
	}
	d := s.departing.Edit(s.w, view(id[:]))
	switch {
	case d == nil:
		d = s.departing.Insert(s.w, string(id[:]), trie.None, 0)
		d.born = s.w.Mark()
	case cmd.Epoch < d.epoch:
		return res
	}
	d.epoch, d.at, d.after = cmd.Epoch, s.now, ""
	s.depart(string(id[:]), s.cfg.DepartAtOnce)
	return res
}

// depart goes on with a departure, and answers what that cost, at least 1.
func (s *State) depart(id string, budget int) (cost int) {
	if d := s.departing.Get(id); d.after == "" { // its waits first, so that they are not granted what it held
		if cost = s.leaveCalls(Session([]byte(id)), d, budget); cost >= budget {
			return cost
		}
	}
	ties := s.ties[Session([]byte(id))]
	for cost < budget {
		d := s.departing.Edit(s.w, id)
		key, ok := "", false
		if ties != nil {
			key, _, ok = ties.Ceiling("", d.after, 0)
			if ok && key == d.after { // it was seen to, and is still tied
				key, _, ok = ties.Ceiling("", key+"\x00", 0)
			}
		}
		if !ok {
			s.bury(tableDeparture, id, d.born)
			s.departing.Remove(s.w, id)
			return max(cost, 1)
		}
		d.after = key
		cost += s.shrink(Session([]byte(id)), key, d, budget-cost)
	}
	return cost
}

// shrink sees to one lease and answers what that cost, at least 1.
func (s *State) shrink(id Session, key string, d *departure, budget int) int {
	l := s.leases.Edit(s.w, key)
	s.castOff(l, id, d)
	b := l.tieOf(id)
	if b == nil || b.epoch > d.epoch || b.spent > d.epoch {
		return 1
	}
	if s.ends(l, b, d); l.deadline > s.now {
		return 1
	}
	return s.endLease(l, budget)
}

// ends has a lease's tie end with its connection: the lease is shrunk if it hangs on no other, but
// not to less than was pledged to those that ended before.
func (s *State) ends(l *lease, b *binding, d *departure) {
	l.pledge(b.session, d.at, s.since(d.at, b.grace))
	if len(l.also) > 0 {
		s.cut(l, b)
		return
	}
	spent := *b
	spent.spent = d.epoch + 1
	l.bind = &spent
	s.shorten(l, l.pledged())
}

// pledge notes at an instant until when a lease is to last for a session whose connection ended.
func (l *lease) pledge(to Session, now, until int64) {
	kept := make([]pledge, 0, len(l.pledges)+1)
	for _, p := range l.pledges {
		switch {
		case p.until <= now:
		case p.of(to):
			until = max(until, p.until)
		default:
			kept = append(kept, p)
		}
	}
	if len(kept) == maxTies {
		kept[1] = pledge{until: max(kept[0].until, kept[1].until), several: true}
		kept = kept[1:]
	}
	l.pledges = append(kept, pledge{session: to, until: until})
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

// castOff notes for an owner's polled place that the connection it is tied to ended: what it is
// granted from now on lasts for no more than the grace.
func (s *State) castOff(l *lease, id Session, d *departure) {
	if w := s.polled(l); w != nil && !w.adrift && w.bind != nil && w.bind.session == id && w.bind.epoch <= d.epoch {
		s.editWaiter(l.poll).adrift = true
	}
}

// meets sees to a lease that is about to be changed.
func (s *State) meets(l *lease) {
	if w := s.polled(l); w != nil && w.bind != nil {
		if d := s.departing.Get(view(w.bind.session[:])); d != nil && l.timer.key > d.after {
			s.castOff(l, w.bind.session, d)
		}
	}
	ties := append(slices.Clone(l.also), l.bind)
	for _, b := range ties {
		if b == nil || b.loose {
			continue
		}
		d := s.departing.Get(view(b.session[:]))
		if d != nil && b.epoch <= d.epoch && b.spent <= d.epoch && l.timer.key > d.after {
			s.ends(l, b, d)
		}
	}
}
