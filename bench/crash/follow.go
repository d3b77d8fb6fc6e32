package crash

import (
	"cmp"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// belief is how much is known of a thing that is or is not so.
type belief uint8

const (
	no belief = iota
	maybe
	yes
)

func (b belief) atLeastMaybe() belief { return max(b, maybe) }
func (b belief) atMostMaybe() belief  { return min(b, maybe) }

// life is what an owner's requests and the looks at its paths say of it, up to a
// time.
type life struct {
	c     *checker
	owner string

	held     belief
	token    int64         // 0: not known
	sure     time.Duration // the lease lasts at least until then, if it is held
	latest   time.Duration // and at most
	heldFrom time.Duration // since when it surely is held

	waits     belief
	waitToken int64
	waitFrom  time.Duration
	waitTTL   time.Duration

	ask ask
}

// ask is an owner's wish for its paths, from the first request on.
type ask struct {
	number    int
	sent      time.Duration
	arrivedBy time.Duration // it surely was known to the server then; forever: not known
	ended     time.Duration
}

// mint is a token that was told for the first time. A floor is one that the server
// did not make.
type mint struct {
	owner, namespace string
	from, to         time.Duration
	token            int64
	floor            bool
}

// hold is a time in which an owner surely held its paths.
type hold struct {
	owner    string
	paths    []string
	mode     wire.Mode
	permits  uint32
	from, to time.Duration
}

// grant is a write lock that was got, and when it was asked for.
type grant struct {
	owner string
	paths []string
	ask   ask
	token int64
}

// step is one thing that happened to an owner.
type step struct {
	from, to time.Duration
	op       *Op
	look     *Look
	queued   bool // the op's place in the queue became known, not its end
}

// follow goes through an owner's life.
func (c *checker) follow(owner string, looks []Look) {
	l := &life{c: c, owner: owner, ask: ask{number: -1}}
	ops := c.byOwner[owner]
	steps := make([]step, 0, len(ops)+len(looks))
	for i := range ops {
		op := &ops[i]
		if op.Queued == 0 || op.Cut {
			steps = append(steps, step{from: op.Sent, to: op.Ended, op: op})
			continue
		}
		// Between the two it is known to wait, and looks are judged by that.
		steps = append(steps, step{from: op.Sent, to: op.Queued, op: op, queued: true})
		if op.Ended != forever {
			steps = append(steps, step{from: op.Ended, to: op.Ended, op: op})
		}
	}
	for i := range looks {
		steps = append(steps, step{from: looks[i].From, to: looks[i].To, look: &looks[i]})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.from, b.from) })
	for i := range steps {
		s := &steps[i]
		if s.look == nil {
			l.request(s)
		} else if !during(steps, i) {
			l.look(s.look)
		}
	}
	l.release(forever)
	l.endAsk(forever)
}

// during says that a look was taken while something else was going on, so that it
// says nothing.
func during(steps []step, i int) bool {
	from, to := steps[i].from, steps[i].to
	for j := i + 1; j < len(steps) && steps[j].from <= to; j++ {
		if steps[j].op != nil {
			return true
		}
	}
	for j := i - 1; j >= 0; j-- {
		if steps[j].op != nil {
			return steps[j].to >= from // requests follow each other
		}
	}
	return false
}

func (l *life) violate(at time.Duration, format string, args ...any) {
	l.c.violate("%v: %s "+format, append([]any{at, l.owner}, args...)...)
}

// surelyHeld says that nothing but the owner can have ended the lock by then.
func (l *life) surelyHeld(at time.Duration) bool { return l.held == yes && at < l.sure }

// surelyNot says that the lock cannot be held any more.
func (l *life) surelyNot(at time.Duration) bool {
	return l.waits == no && (l.held == no || at > l.latest)
}

// lease takes note that the lease was set to ttl at some time between from and to.
func (l *life) lease(from, to, ttl time.Duration, longer bool) {
	sure, latest := from+ttl, l.c.leaseEnd(to, ttl)
	if longer && l.held != no {
		sure, latest = max(sure, l.sure), max(latest, l.latest)
	}
	l.sure, l.latest = sure, latest
}

// take takes note that the lock is held.
func (l *life) take(at time.Duration, token int64) {
	if l.held != yes {
		l.heldFrom = at
	}
	l.held, l.waits = yes, no
	if token != 0 {
		l.token = token
	}
}

// gone takes note that the lock is not held, and may have gone from a time on.
func (l *life) gone(from time.Duration) {
	l.release(from)
	l.held, l.token = no, 0
}

// release takes note that the lock may have gone from a time on.
func (l *life) release(at time.Duration) {
	if l.held != yes {
		return
	}
	op := &l.c.byOwner[l.owner][0]
	to := min(at, l.sure)
	if l.heldFrom < to {
		l.c.holds = append(l.c.holds, hold{l.owner, op.Paths, op.Mode, op.Permits, l.heldFrom, to})
	}
}

func (l *life) endAsk(at time.Duration) {
	if l.ask.number >= 0 {
		l.ask.ended = at
		l.c.asks[l.owner] = append(l.c.asks[l.owner], l.ask)
		l.ask = ask{number: -1}
	}
}
