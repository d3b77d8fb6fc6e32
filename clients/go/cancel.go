package pathlockd

import (
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of calls whose callers go before the answer comes.

// forsake is called for a call whose caller has gone. It answers whether the call
// was never sent, and now never will be.
func (c *Client) forsake(one *call) (unsent bool) {
	if one.way != nil {
		return one.way.forsake(one)
	}
	return one.session.forsake(one)
}

// forsake is the session's part of it.
func (s *session) forsake(c *call) (unsent bool) { return s.forsakes(c)() }

// forsakes takes note of it, and answers what is to be done then without a lock.
func (s *session) forsakes(c *call) (then func() (unsent bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One that was sent before is asked again only if that is to settle something.
	if q := c.in; q != nil && (c.id == 0 || !c.undo && !c.insists || q == &s.mu.anew) {
		q.remove(c)
		s.heardOf(c)
		w := c.settle()
		var f flusher
		if s.pump() { // what came behind it may go now
			f = flusher{s.mu.conn, false}
		}
		return func() bool {
			f.flush()
			if w != nil {
				w.settled()
			}
			switch {
			case q == &s.mu.anew: // there may be no room for it for as long as others wait: what it took is given back
				s.c.orphaned(c, nil, ErrOutcomeUnknown)
			case c.id != 0:
				c.over(ending{err: ErrOutcomeUnknown}) // nobody else will: it does not land
			}
			return c.id == 0
		}
	}
	c.forsaken = true
	if id := c.id; c.waits && c.in == nil && s.mu.sent.get(id) == c {
		s.mu.leaving++
		c.asked, c.cancels = s.c.now(), true
		return func() bool {
			s.cancel(id)
			s.c.keeper.heed()
			return false
		}
	}
	return func() bool { return false }
}

// cancel asks the server to end a waiting acquire.
func (s *session) cancel(id uint64) {
	if c := s.cancelOf(id); s.submit(c) != nil {
		c.free()
	}
}

// cancelOf makes the call that does so.
func (s *session) cancelOf(id uint64) *call {
	c := newCall((*cancels)(s))
	c.set(&wire.Request{Op: wire.OpCancel, Target: id})
	c.urgent = true
	return c
}

// overdue answers the waiting acquires that should have ended by now, as they were
// cancelled: a cancel that overtakes its acquire inside the server ends nothing. It
// also says whether some wait so long that they need to be asked again to keep their
// places. One whose cancel is on its way is not among them: a server may stand still.
func (s *session) overdue(now time.Duration) (cancelled []uint64, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.waits == 0 {
		return nil, false
	}
	for _, c := range s.mu.sent.sorted() {
		switch {
		case c.waits && c.forsaken:
			if !c.cancels {
				c.cancels = true
				cancelled = append(cancelled, c.id)
			}
		case c.forever && now-c.asked >= s.c.longestQueue/2:
			stale = true
		}
	}
	return cancelled, stale
}

// cancels is the session as the receiver of cancels.
type cancels session

// land implements receiver: what is not ended by it is to be cancelled again.
func (s *cancels) land(c *call, _ *reply) {
	target := c.request().Target
	c.free()
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.mu.sent.get(target); of != nil {
		of.cancels = false
	}
}

// ignored is the receiver of what nobody waits for.
type ignored struct{}

func (ignored) land(c *call, r *reply) {
	c.gave(r)
	c.free()
}
