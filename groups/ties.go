package groups

import (
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// What ties all leases of an owner to a connection, or unties them.
//
// It is about the leases that come of acquires that were sent before it, too, whether they are
// carried out by then or not. What is sent behind it says itself how it is tied; what was sent
// before it does not, and may be on its way to a log where the owner has nothing yet, and where
// nobody would look for it. So a bind and an unbind wait until the acquires of their owner that
// came before them on the connection are answered, or have a place in the queue: either way the
// owner's record is found then.
//
// What the owner has already a bind ties at once, before it waits: on a later connection its time
// may be running out with the grace of the one before.

// cameBefore is how much came in the order of its session before a call that waits for it.
func cameBefore(c *wire.Call) uint64 {
	if c.Op != wire.OpBind && c.Op != wire.OpUnbind {
		return 0
	}
	ln := lineOf(c.Session)
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.came
}

// behindAcquires waits for the acquires that came before, as long as the connection stands and
// the call has time.
func (s *steps) behindAcquires() *wire.Error {
	for tied := s.c.Op != wire.OpBind; s.came > 0; tied = true {
		left := lineOf(s.c.Session).acquiring(s.req.Owner, s.came)
		if left == nil {
			break
		}
		if err := s.noneScarce(s.asks); err != nil { // they may wait for any log, and it asks all
			return err
		}
		if !tied {
			_, _ = s.renew() // what becomes of it is told when it is done again
		}
		switch s.n.tasks.wait(max(s.n.cfg.RequestTimeout-(s.n.clock.Mono()-s.since), 0), left, s.n.stop) {
		case 1:
			return logClosed.Err()
		case -1:
			return wire.Errorf(wire.Unavailable,
				"acquires of the owner that were sent before were not answered within request_timeout_ms; "+
					"nothing was done")
		}
	}
	return nil
}

// bind ties what its owner has, and has the logs know of a connection on which it is asked again: the
// copy that an earlier one left behind would tie to that one what other sessions of the owner take
// after this is answered. It ties first, as it must not hang on other logs; and once more what the
// copy may have found until they know.
func (s *steps) bind() (res wire.Result, err *wire.Error) {
	if res, err = s.renew(); err != nil {
		return res, err
	}
	told, err := s.resume()
	if err != nil || !told {
		return res, err
	}
	return s.renew()
}

// acquiring answers what is closed when there may be less under way of what an owner asked for
// among the first that came, nil when nothing is. What comes of a connection that ended is
// waited for by nobody.
func (ln *line) acquiring(owner string, came uint64) <-chan struct{} {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	asks := func(p *part) bool { return p.Op == wire.OpAcquire && p.came <= came && p.owner == owner }
	found := slices.ContainsFunc(ln.held, asks)
	for u := ln.under; u != nil && !found; u = u.prev {
		found = asks(u)
	}
	if !found || ln.over || engine.Planted == engine.PlantEarlyBind {
		return nil
	}
	if ln.left == nil {
		ln.left = make(chan struct{})
	}
	return ln.left
}

// gone tells who waits that less may be under way. It is called under the lock.
func (ln *line) gone() {
	if ln.left != nil {
		close(ln.left)
		ln.left = nil
	}
}
