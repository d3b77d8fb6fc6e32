package check

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// model is the sequential model of one namespace. It answers what a namespace may look
// like after an operation that was answered as it was, nothing if no namespace could
// answer so.
//
// Time is in it by bounds. A lease that surely still runs when an operation returns must
// be seen by that operation. From then on it may end at any instant that nobody sees; it
// is taken to be there until somebody's answer says that it is not. A waiter may be granted
// at any instant, likewise: it counts as a holder from when an answer says that it is one.
// The same goes for an acquire of unknown outcome, which therefore is no step of its own.
// That leases end in time, and waiters come in order, others check.
type model struct {
	c *checker
}

// expirable says that a hold may have ended by the time that op returned.
func (m *model) expirable(st *ownerRecord, op *history.Op) bool {
	return min(st.sure, m.c.claims[st.owner].cut) <= op.Return
}

// step carries an operation out.
func (m *model) step(s *state, op *history.Op) []*state {
	switch {
	case op.Kind == history.Restored && s.era == op.Era-1:
		return []*state{m.restored(s, op)}
	case op.Era < s.era:
		return []*state{s} // it came after the backup, and is gone
	case op.Era > s.era:
		return nil
	}
	n := s.next(op.Call)
	ok := true
	switch op.Kind {
	case history.Acquire:
		switch {
		case op.OK():
			ok = m.granted(n, op)
		default:
			ok = m.refused(n, op)
		}
	case history.Release:
		m.drop(n, op.Owner, false)
	case history.Clear:
		m.drop(n, op.Owner, true)
	case history.Renew:
		ok = m.renew(n, op)
	case history.Assert:
		ok = m.assert(n, op)
	case history.Look:
		ok = m.look(n, op)
	case history.SetPolicy:
		return m.policy(s, n, op)
	case history.Restored:
		return nil
	}
	if !ok {
		return nil
	}
	return []*state{n.seal()}
}

// restored is the namespace in a new cluster: all is there that was in the backup, with
// other tokens, and no path has a fence below what was ever told of. Until a hold's token
// is told again, nobody knows it.
func (m *model) restored(s *state, op *history.Op) *state {
	n := s.next(op.Call)
	n.era = op.Era
	for i := range n.owners {
		n.owners[i].token = 0
	}
	for _, cl := range m.c.claims {
		if cl.namespace != op.Namespace {
			continue
		}
		for _, p := range cl.Paths {
			n.setFence(p, op.Token)
		}
	}
	return n.seal()
}

// drop takes away what an owner holds, and its place too.
func (m *model) drop(s *state, owner string, place bool) {
	if st := s.find(owner); st != nil {
		now := *st
		now.held, now.waits = false, now.waits && !place
		s.put(now)
	}
}

// gone takes away a hold that an answer says is not there; false if it must be.
func (m *model) gone(s *state, st *ownerRecord, op *history.Op) bool {
	if !m.expirable(st, op) {
		return false
	}
	now := *st
	now.held = false
	s.put(now)
	return true
}

// clear makes room for an owner: whoever stands in its way must be gone.
func (m *model) clear(s *state, owner string, op *history.Op) bool {
	mine := m.c.claims[owner]
	held := uint32(0)
	for _, st := range slices.Clone(s.owners) {
		other := m.c.claims[st.owner]
		if !st.held || st.owner == owner || !conflict(s.algorithm, mine, other) {
			continue
		}
		if mine.Permits > 0 {
			// Which of several that may have ended did end, nobody can tell.
			if !m.expirable(&st, op) {
				held++
			}
			continue
		}
		if !m.gone(s, &st, op) {
			return false
		}
	}
	return mine.Permits == 0 || held < mine.Permits
}

func (m *model) granted(s *state, op *history.Op) bool {
	was := ownerRecord{owner: op.Owner}
	if st := s.find(op.Owner); st != nil {
		was = *st
	}
	now := ownerRecord{
		owner: op.Owner, held: true, token: op.Token,
		sure: m.c.sure(op.Call, op.TTL), over: m.c.over(op.Return, op.TTL) + time.Minute,
	}
	if was.held && !m.expirable(&was, op) {
		now.sure, now.over = max(now.sure, was.sure), max(now.over, was.over)
		if was.token != 0 && op.Token != was.token {
			return false // who holds it keeps the token
		}
	}
	if !m.clear(s, op.Owner, op) {
		return false
	}
	if op.Fenced() && (!was.held || was.token != op.Token) {
		for _, p := range op.Paths {
			if op.Token < s.fence(p) || op.Token == s.fence(p) && (!was.held || was.token != 0) {
				return false
			}
		}
	}
	if op.Fenced() {
		for _, p := range op.Paths {
			s.setFence(p, op.Token)
		}
	}
	s.put(now)
	return true
}

// refused is an acquire that was told to wait, or that something is in the way.
func (m *model) refused(s *state, op *history.Op) bool {
	now := ownerRecord{owner: op.Owner}
	if st := s.find(op.Owner); st != nil {
		if st.held && !m.gone(s, st, op) {
			return false
		}
		if st = s.find(op.Owner); st != nil {
			now = *st
		}
	}
	blocker := m.c.claims[op.Blocker]
	if blocker == nil || op.Blocker == op.Owner || blocker.Call > op.Return {
		return false // nobody, or somebody who never asked
	}
	if op.Reason != wire.ReasonQueued {
		if !slices.Contains(blocker.Paths, op.At) || !m.holds(s, op.Blocker, op) {
			return false
		}
	}
	if op.Queued() {
		now.waits = true
		now.sure = m.c.sure(op.Call, op.TTL)
		now.stays = m.c.sure(op.Call, min(op.TTL, op.QueueTTL))
		now.over = max(now.over, m.c.over(m.c.over(op.Return, op.QueueTTL), op.TTL)+time.Minute)
		s.put(now)
	}
	return true
}

// holds takes note that an answer says that an owner holds its paths; false if it
// cannot.
func (m *model) holds(s *state, owner string, op *history.Op) bool {
	cl := m.c.claims[owner]
	now := ownerRecord{owner: owner, held: true}
	switch st := s.find(owner); {
	case st != nil && st.held:
		return true
	case st != nil && st.waits:
		now.sure, now.over = st.sure, st.over
	case cl != nil && cl.ghost != nil && cl.ghost.Call <= op.Return:
		now.sure, now.over = m.c.sure(cl.ghost.Call, cl.ghost.TTL), history.Forever
	default:
		return false
	}
	if !m.clear(s, owner, op) {
		return false
	}
	s.put(now)
	return true
}

func (m *model) renew(s *state, op *history.Op) bool {
	if !op.OK() {
		st := s.find(op.Owner)
		return st == nil || !st.held || m.gone(s, st, op)
	}
	if !m.holds(s, op.Owner, op) {
		return false
	}
	now := *s.find(op.Owner)
	now.sure, now.over = m.c.sure(op.Call, op.TTL), m.c.over(op.Return, op.TTL)+time.Minute
	s.put(now)
	return true
}

func (m *model) assert(s *state, op *history.Op) bool {
	if !op.OK() {
		st := s.find(op.Owner)
		if st == nil || !st.held || st.token != 0 && st.token != op.Asked {
			return true
		}
		if s.era > 0 && st.token == 0 && slices.ContainsFunc(op.Paths,
			func(p string) bool { return op.Asked <= s.fence(p) }) {
			return true // the token is another one since a restore
		}
		return m.gone(s, st, op)
	}
	return m.holds(s, op.Owner, op) && m.token(s, op.Owner, op.Asked, op)
}

// token takes note that an owner holds with a token; false if it cannot be that one.
func (m *model) token(s *state, owner string, token int64, op *history.Op) bool {
	now, cl := *s.find(owner), m.c.claims[owner]
	if now.token != 0 && token != now.token {
		if cl.ghost == nil || cl.ghost.Call > op.Return || !m.expirable(&now, op) {
			return false
		}
		// That lease ended, and the acquire of unknown outcome took the paths anew: nobody saw either.
		now = ownerRecord{owner: owner, held: true, sure: m.c.sure(cl.ghost.Call, cl.ghost.TTL), over: history.Forever}
	}
	for _, p := range cl.Paths {
		if token < s.fence(p) || token == s.fence(p) && now.token == 0 {
			return false
		}
	}
	for _, p := range cl.Paths {
		s.setFence(p, token)
	}
	now.token = token
	s.put(now)
	return true
}

// look is what a path looked like.
func (m *model) look(s *state, op *history.Op) bool {
	path := op.Paths[0]
	for i := range op.Holders {
		h := &op.Holders[i]
		cl := m.c.claims[h.Owner]
		if cl == nil || !slices.Contains(cl.Paths, path) || cl.Mode != h.Mode || !m.holds(s, h.Owner, op) {
			return false
		}
		if h.Token != 0 && !m.token(s, h.Owner, h.Token, op) {
			return false
		}
	}
	for _, w := range op.Waiters {
		if cl := m.c.claims[w]; cl == nil || cl.Call > op.Return {
			return false
		}
	}
	for _, st := range slices.Clone(s.owners) {
		if !slices.Contains(m.c.claims[st.owner].Paths, path) {
			continue
		}
		held := slices.ContainsFunc(op.Holders, func(h history.Holder) bool { return h.Owner == st.owner })
		if st.held && !held && !m.gone(s, &st, op) {
			return false
		}
		if st.waits && !st.held && !held && !slices.Contains(op.Waiters, st.owner) &&
			min(st.stays, m.c.claims[st.owner].cut) > op.Return {
			return false // a waiter was lost
		}
	}
	if op.Token < s.fence(path) {
		return false
	}
	s.setFence(path, op.Token)
	return true
}

// policy is a change of the rules, which ends all there is when it changes something.
func (m *model) policy(was, s *state, op *history.Op) []*state {
	if op.Algorithm != s.algorithm {
		s.algorithm, s.owners = op.Algorithm, nil
	}
	s.seal()
	if op.Outcome == history.Unknown {
		return []*state{was, s}
	}
	return []*state{s}
}
