package crash

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// request takes a request's outcome into account.
func (l *life) request(s *step) {
	op := s.op
	if op.Answered && op.Refused != wire.OK && op.Refused != wire.DeadlineExceeded {
		return // it had no effect
	}
	known := s.queued || op.Answered && op.Refused == wire.OK
	switch op.Kind {
	case Acquire:
		l.acquire(s, known)
	case Release, Clear, SetPolicy:
		l.letGo(op, known)
	case Renew:
		l.renew(op, known)
	case Assert:
		l.assert(op, known)
	case Increment: // looked at by checkCounter
	}
}

func (l *life) acquire(s *step, known bool) {
	op := s.op
	if l.ask.number != op.Ask {
		l.endAsk(op.Sent)
		l.ask = ask{number: op.Ask, sent: op.Sent, arrivedBy: forever}
	}
	if !known {
		if l.held == maybe {
			l.token = 0 // it may have got another one
		}
		l.held, l.latest = l.held.atLeastMaybe(), max(l.latest, l.c.leaseEnd(s.to, op.TTL))
		switch {
		case op.Open:
			l.waits, l.waitTTL = maybe, op.TTL // not for long, if it was given up
		case !op.NoQueue:
			l.waits, l.waitTTL = l.waits.atLeastMaybe(), op.TTL
		}
		return
	}
	l.ask.arrivedBy = min(l.ask.arrivedBy, s.to)
	if s.queued {
		l.enqueue(s, op.QueuedToken)
		return
	}
	switch op.Status {
	case wire.StatusOK:
		l.granted(op)
	case wire.StatusQueued:
		l.enqueue(s, op.Token)
	case wire.StatusConflict, wire.StatusLost:
		if l.surelyHeld(op.Ended) || op.Status == wire.StatusLost && op.Ended < op.Sent+op.TTL {
			l.violate(op.Ended, "is told %v, and its lease lasts until %v at least", op.Status, l.sure)
		}
		l.gone(op.Sent)
		if op.Status == wire.StatusLost {
			l.waits = no
		}
	}
}

// granted is an acquire that was answered OK.
func (l *life) granted(op *Op) {
	fresh := false
	writes := op.Mode == wire.ModeWrite && op.Permits == 0
	switch {
	case !writes:
	case op.Asked > 0:
		if op.Token != op.Asked {
			l.violate(op.Ended, "brought token %d and is told %d", op.Asked, op.Token)
		}
		l.mint(op.Sent, op.Ended, op.Token, true)
		fresh = true
	case l.surelyHeld(op.Ended) && l.token != 0 && op.Token != l.token:
		l.violate(op.Ended, "holds the lock with token %d and is told %d", l.token, op.Token)
	case l.held != no && op.Token == l.token: // kept
	case l.waits != no && op.Token < l.waitToken:
		l.violate(op.Ended, "was promised token %d and is told %d", l.waitToken, op.Token)
	case l.waits != no && op.Token == l.waitToken: // promised
		fresh = true
	default:
		l.mint(l.ask.sent, op.Ended, op.Token, false)
		fresh = true
	}
	if fresh {
		l.c.grants = append(l.c.grants, grant{l.owner, op.Paths, l.ask, op.Token})
	}
	l.lease(op.Sent, op.Ended, op.TTL, true)
	l.take(op.Ended, op.Token)
}

// enqueue is an acquire that was told its place.
func (l *life) enqueue(s *step, token int64) {
	if l.surelyHeld(s.to) {
		l.violate(s.to, "has to wait for what it holds with token %d until %v at least", l.token, l.sure)
	}
	l.gone(s.from)
	switch {
	case token == 0: // reads and permits
	case l.waits != no && l.waitToken != 0 && token < l.waitToken:
		l.violate(s.to, "was promised token %d, and now %d", l.waitToken, token)
	case l.waits != no && token == l.waitToken:
	case s.op.Asked == 0:
		l.mint(l.ask.sent, s.to, token, false)
	}
	l.waits, l.waitToken, l.waitFrom, l.waitTTL = yes, token, s.from, s.op.TTL
}

func (l *life) mint(from, to time.Duration, token int64, floor bool) {
	l.c.mints = append(l.c.mints, mint{l.owner, l.c.byOwner[l.owner][0].Namespace, from, to, token, floor})
}

// letGo is a release, or a new policy, which clears the namespace.
func (l *life) letGo(op *Op, known bool) {
	if op.Kind == Clear {
		l.endAsk(op.Sent)
	}
	if known {
		l.gone(op.Sent)
		if op.Kind != Release {
			l.waits = no
		}
		return
	}
	l.release(op.Sent)
	l.held = l.held.atMostMaybe()
	if op.Kind != Release {
		l.waits = l.waits.atMostMaybe()
	}
}

func (l *life) renew(op *Op, known bool) {
	switch {
	case !known:
		l.sure, l.latest = min(l.sure, op.Sent+op.TTL), max(l.latest, l.c.leaseEnd(op.Ended, op.TTL))
	case op.Status == wire.StatusOK:
		if l.surelyNot(op.Sent) {
			l.violate(op.Ended, "renews a lease that is over (it %s)", l.whyNot(op.Sent))
		}
		l.lease(op.Sent, op.Ended, op.TTL, false)
		l.take(op.Ended, 0)
	default:
		if l.surelyHeld(op.Ended) {
			l.violate(op.Ended, "has lost a lease that lasts until %v at least", l.sure)
		}
		l.gone(op.Sent)
	}
}

func (l *life) assert(op *Op, known bool) {
	switch {
	case !known:
	case op.Status == wire.StatusOK && l.surelyNot(op.Sent):
		l.violate(op.Ended, "is said to hold the lock with token %d (it %s)", op.Asked, l.whyNot(op.Sent))
	case op.Status != wire.StatusOK && l.surelyHeld(op.Ended) && l.token == op.Asked:
		l.violate(op.Ended, "is said not to hold the lock with token %d, which lasts until %v at least",
			l.token, l.sure)
	}
}

func (l *life) whyNot(at time.Duration) string {
	if l.held == no {
		return "let go of it, lost it or never had it"
	}
	return "had until " + l.latest.String() + " at most, and it is " + at.String()
}

// look takes into account what a path looked like while the owner did nothing.
func (l *life) look(k *Look) {
	i := slices.IndexFunc(k.Holders, func(h Holder) bool { return h.Owner == l.owner })
	waiting := slices.Contains(k.Waiters, l.owner)
	if waiting && l.waits == no {
		l.violate(k.To, "waits for %s and does not want it", k.Path)
	}
	if i >= 0 {
		l.seen(k, k.Holders[i].Token)
		return
	}
	if k.Partial || l.held == yes && l.heldFrom > k.From {
		return // what says that it holds the lock may be of a later time
	}
	if l.surelyHeld(k.To) {
		l.violate(k.To, "does not hold %s any more, which it has with token %d until %v at least", k.Path,
			l.token, l.sure)
	}
	l.gone(k.From)
	if l.waits == yes && !waiting && k.To < l.waitFrom+l.waitTTL {
		l.violate(k.To, "waits for %s since %v, and is not in the queue any more", k.Path, l.waitFrom)
	}
	if l.waits != no {
		l.waits = no
		if waiting {
			l.waits = yes
		}
	}
}

// seen is a look that shows the owner as a holder.
func (l *life) seen(k *Look, token int64) {
	if l.surelyNot(k.From) {
		l.violate(k.To, "holds %s (it %s)", k.Path, l.whyNot(k.From))
	}
	if l.waits != no {
		// Granted since, nobody knows when: at the earliest when it was told to wait.
		l.token = token
		l.sure, l.latest = l.waitFrom+l.waitTTL, forever
		if token != 0 && token < l.waitToken {
			l.violate(k.To, "holds %s with token %d and was promised %d", k.Path, token, l.waitToken)
		}
	} else if l.held != no && token != 0 && l.token != 0 && token != l.token {
		l.violate(k.To, "holds %s with token %d and was told %d", k.Path, token, l.token)
	}
	wasWaiting := l.waits
	l.take(k.To, token)
	if k.Partial {
		l.waits = wasWaiting // of several paths, or of another time
	}
}
