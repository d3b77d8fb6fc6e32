package pathlockd

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The server tells each connection what happens to the leases that its session has tied (PROTOCOL.md,
// lease): they need no subscription. That may come late, when the owner holds the path again, by another
// lock. So it names the acquires that it is about, and ends the locks that they took, and no other.
// Everything else of it is a reason to ask.
//
// Of a lease that another client may share, what the server tells is not all there is to know: the other one
// may give back what is this one's, and take it again. Such leases are watched, or looked at, as before.

// unclaimed is how many acquires are remembered that something was said of before their locks came to be kept. What
// more are said of is forgotten, and every lock that was asked for by then asked about.
const unclaimed = 64

// early is an acquire that something was said of, what, and when.
type early struct {
	mark uint64
	kind wire.EventKind
	at   time.Duration
}

// askedWithin is the time over which leases are asked for of which the client may have missed something, and how
// long what was killed, or taken since, is believed in while nobody says which.
const askedWithin = 2 * time.Second

// told takes what the server says about a lease.
func (k *keeper) told(t *tie, e *wire.LeaseEvent) {
	var todo chores
	k.mu.Lock()
	switch {
	case !t.tells: // it was not asked to
	case e.Kind == 0:
		k.maybeMissed(t)
	default:
		if e.Kind == wire.EventKilled {
			k.killed(e.Owner, e.Namespace)
		}
		marks := e.Acquires
		if l := k.mu.leases[leaseName{e.Owner, e.Namespace}]; l != nil {
			marks = l.learns(e, &todo)
		}
		for _, mark := range marks {
			one := &k.mu.early[k.mu.earlier%unclaimed]
			k.mu.missed = max(k.mu.missed, one.at)
			*one = early{mark, e.Kind, k.c.now()}
			k.mu.earlier++
		}
	}
	k.mu.Unlock()
	todo.do(k.c)
}

// killed notes of the locks that are asked for that what they get, or got already, may be gone: not all need be named
// (engine/told.go).
func (k *keeper) killed(owner, namespace string) {
	for _, lk := range k.mu.asked[owner] {
		if lk.maybe(namespace) {
			lk.killed = k.c.now()
		}
	}
}

// maybeMissed asks for the leases that hang on a connection, or its session's earlier ones: but not for all at once.
func (k *keeper) maybeMissed(t *tie) {
	now := k.c.now()
	k.mu.missed = now
	for _, l := range k.mu.due {
		if !slices.ContainsFunc(l.ties, func(o *tie) bool { return o.lane == t.lane }) {
			continue
		}
		l.again = l.again || l.asking // which may have been carried out before
		l.renewAt = min(l.renewAt, now+rand.N(min(l.least/renewAt, askedWithin)+1))
	}
	k.reorder()
	k.rouse(0)
}

// learns takes what happened to the lease of its name, or to an earlier one. It answers which of the acquires are not
// of its locks.
func (l *lease) learns(e *wire.LeaseEvent, todo *chores) (others []uint64) {
	others = slices.Clone(e.Acquires)
	var named []*Lock
	for _, lk := range l.locks {
		mark := wire.AcquireMark(lk.as, lk.by)
		switch i := slices.Index(others, mark); {
		case i >= 0 && lk.resent: // it may have been granted anew since
		case i >= 0:
			others = slices.Delete(others, i, i+1)
			named = append(named, lk)
		}
	}
	all := len(named) == len(l.locks)
	switch lost := (LostError{}); e.Kind {
	case wire.EventRevoke:
		todo.asked = append(todo.asked, named...)
	case wire.EventKilled, wire.EventExpired:
		if lost.Cause = ErrKilled; e.Kind == wire.EventExpired {
			lost.Cause, lost.Reason = ErrExpired, wire.ReasonMissingAlive
		}
		for _, lk := range named {
			lost := lost
			lost.Path = lk.paths[0].Path
			lk.ends(&lost, todo)
		}
		if l.part(named...); all {
			l.forget(todo)
			return others
		}
		l.suspect()
		l.mayBeOver(e.Kind) // not all need be named (engine/told.go)
	default:
		all = false
	}
	if !all {
		l.anew()
	}
	l.k.fix(l)
	return others
}

// saidEarly says that the server said something of what a lock got before the lock came to be kept, or may have, since
// what proved it was sent; and what, if that was its end.
func (k *keeper) saidEarly(lk *Lock, sent time.Duration) (said bool, end wire.EventKind) {
	if lk.killed != 0 && sent <= lk.killed && planted != plantUnnamed {
		said, end = true, wire.EventKilled
	}
	if said = said || k.mu.missed != 0 && sent <= k.mu.missed; k.mu.earlier == 0 {
		return said, end
	}
	mark := wire.AcquireMark(lk.as, lk.by)
	for _, e := range k.mu.early {
		if e.mark != mark {
			continue
		}
		said = true
		ends := e.kind == wire.EventKilled || e.kind == wire.EventExpired
		if ends && sent <= e.at && end != wire.EventKilled {
			end = e.kind
		}
	}
	return said, end
}

// unheard says that the lease may hang on a connection that does not tell.
func (l *lease) unheard() bool {
	return slices.ContainsFunc(l.ties, func(t *tie) bool { return !t.tells })
}
