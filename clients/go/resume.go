package pathlockd

import (
	"cmp"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of calls when their connection is lost, and on the next one.

// heardOf notes that the server has a call that was sent again.
func (s *session) heardOf(c *call) {
	if !c.unheard {
		return
	}
	c.unheard = false
	if s.mu.unheard--; s.mu.unheard == 0 {
		s.mu.away = 0
	}
}

// lost takes note that a connection is gone, of which the last bytes were heard at
// a time: what was unanswered on it is to be sent again. It answers whose leases an
// unanswered request may have tied to it, and the ways of what nobody wants to know
// any more.
func (s *session) lost(cn *conn, heard time.Duration) (unsure unsure, dropped []*way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn == cn {
		s.mu.conn = nil
	}
	all := s.mu.sent.sorted()
	s.mu.sent.clear()
	s.mu.raises, s.mu.gathers, s.mu.spareTaken, s.mu.flying = 0, 0, 0, 0
	s.mu.ordered, s.mu.waits, s.mu.leaving, s.mu.corked = 0, 0, 0, false
	for i := range s.mu.shares {
		sh := &s.mu.shares[i]
		sh.flying, sh.lists, sh.raises, sh.gathers = 0, 0, 0, 0
	}
	s.mu.known.count(&s.mu.shares)
	for _, q := range [...]*callQueue{&s.mu.again, &s.mu.keeps, &s.mu.anew} {
		for c := q.first; c != nil; c = q.first {
			q.remove(c)
			all = append(all, c)
		}
	}
	for c := s.mu.urgent.first; c != nil; {
		one := c
		if c = c.next; one.op == wire.OpCancel { // send cancels what is asked again
			s.mu.urgent.remove(one)
			one.free()
		}
	}
	slices.SortFunc(all, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	s.mu.unheard = 0
	for _, c := range all {
		c.unheard, c.cancels = false, false
		if c.op == wire.OpAcquire || c.op == wire.OpRenew || c.op == wire.OpBind {
			if req := c.request(); c.op == wire.OpBind || req.Flags&wire.FlagBind != 0 {
				from := c.sent // the first time
				if c.resent {
					from = 0
				}
				unsure.add(req, from)
			}
		}
		if c.op == wire.OpCancel || c.only != 0 || c.forsaken && !c.undo && !c.insists {
			if w := c.settle(); w != nil {
				dropped = append(dropped, w)
			}
			c.over(ending{err: ErrOutcomeUnknown})
			continue // nobody wants to know any more
		}
		c.unheard = true
		s.mu.unheard++
		s.sentQueue(c).push(c)
	}
	if s.mu.unheard == 0 {
		s.mu.away = 0
	} else if s.mu.away == 0 {
		s.mu.away = heard
	}
	return unsure, dropped
}

// hello answers what to say at the next hello, the calls whose outcome nobody
// will know because the server has forgotten the session since, and those that are not to be sent any more.
func (s *session) hello(heard time.Duration) (id sessionID, epoch, request uint64, unknown, late []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.mu.away
	if since == 0 {
		since = heard
	}
	// A tenth less than the server says, as clocks do not run alike.
	if repeat := s.mu.limits.repeat; s.mu.epoch > 0 && s.c.now()-since >= repeat-repeat/10 {
		unknown = s.renounce()
	}
	unknown = append(unknown, s.forgotten()...)
	for q := range s.queues() {
		for c := q.first; c != nil; {
			one := c
			if c = c.next; one.until != 0 {
				q.remove(one)
				s.heardOf(one)
				late = append(late, one)
			}
		}
	}
	s.mu.epoch++
	s.mu.lastID++
	return s.mu.id, s.mu.epoch, s.mu.lastID, unknown, late
}

// forgotten takes out what may have changed something and was sent so long ago that its log may have forgotten the
// session, whatever else went on since: logs count from what came to them.
func (s *session) forgotten() (unknown []*call) {
	repeat := s.mu.limits.repeat
	for _, q := range [...]*callQueue{&s.mu.again, &s.mu.keeps} {
		for c := q.first; c != nil; {
			one := c
			if c = c.next; one.mutates() && !one.waits && s.c.now()-one.sent >= repeat-repeat/10 {
				q.remove(one)
				s.heardOf(one)
				unknown = append(unknown, one)
			}
		}
	}
	return unknown
}

// renounce begins a new session. Reads are asked anew; what may have changed
// something is given up, and so is what names a request of the old session.
func (s *session) renounce() (unknown []*call) {
	s.begin()
	var reads []*call
	for _, q := range [...]*callQueue{&s.mu.again, &s.mu.keeps} {
		for c := q.first; c != nil; c = q.first {
			q.remove(c)
			c.unheard = false
			if c.mutates() {
				unknown = append(unknown, c)
				continue
			}
			if c.id, c.on, c.resent = 0, 0, false; c.async {
				s.mu.backlog++
			}
			reads = append(reads, c)
		}
	}
	s.mu.unheard, s.mu.away = 0, 0
	for c := s.mu.normal.first; c != nil; c = s.mu.normal.first {
		s.mu.normal.remove(c)
		if c.fixed {
			unknown = append(unknown, c)
			continue
		}
		reads = append(reads, c)
	}
	for _, c := range reads {
		if c.urgent { // a look
			s.mu.urgent.push(c)
		} else {
			s.mu.normal.push(c)
		}
	}
	return unknown
}

// resume makes cn the session's connection.
func (s *session) resume(cn *conn, w windows) error {
	s.mu.Lock()
	if err := s.mu.closed; err != nil {
		s.mu.Unlock()
		return err
	}
	s.mu.limits = w
	s.mu.sent.grow(w.all + s.mu.sent.n)
	s.mu.conn = cn
	mine := s.pump()
	s.mu.Unlock()
	if mine {
		cn.flush(false)
	}
	return nil
}
