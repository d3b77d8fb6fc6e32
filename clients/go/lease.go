package pathlockd

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// leaseName tells leases apart: an owner has one in each namespace where it holds
// something.
type leaseName struct{ owner, namespace string }

// lease is what the locks of one owner in one namespace stand on: nearly always
// one lock. Everything in it is under the keeper's lock.
type lease struct {
	k       *keeper
	name    leaseName
	domains [1]string // of its renewals
	ttl     time.Duration
	locks   []*Lock
	one     [1]*Lock // memory of locks

	sure    time.Duration // until when it lasts by what the server confirmed
	limit   time.Duration // and by its connection, which is gone; 0: it is not
	on      uint64        // connection that confirmed it last
	lane    *lane         // whose connection that is
	granted time.Duration // when the last of its locks was taken
	renewAt time.Duration
	watchAt time.Duration // 0: it is watched, or will not be

	asking   bool          // a renewal is under way
	askedTTL time.Duration // for which time
	fails    int
	lastFail error
	sub      *Subscription

	at    time.Duration // when it needs something: place in the heap
	place int           // -1: not kept
}

// deadline is until when the lease surely lasts.
func (l *lease) deadline() time.Duration {
	if l.limit != 0 {
		return min(l.sure, l.limit)
	}
	return l.sure
}

// next is when the lease needs something.
func (l *lease) next() time.Duration {
	at := l.deadline()
	if !l.asking {
		at = min(at, l.renewAt)
	}
	if l.watchAt != 0 {
		at = min(at, l.watchAt)
	}
	return at
}

// join adds a lock.
func (l *lease) join(lk *Lock, by *answer, now time.Duration) {
	if l.locks == nil {
		l.locks, l.domains[0] = l.one[:0], l.name.namespace
	}
	l.locks = append(l.locks, lk)
	lk.lease = l
	l.ttl, l.granted = max(l.ttl, lk.ttl), now
	sure := by.sent + lk.ttl - margin(lk.ttl)
	again := l.limit != 0 && l.k.firm(l, by.on, by.lane) // it hangs on a connection again
	if again {
		l.limit = 0
	}
	if again || sure > l.sure {
		l.sure, l.renewAt = sure, l.renewal(by.sent, lk.ttl)
	}
	switch {
	case l.lane == by.lane:
		l.on = max(l.on, by.on)
	case l.lane != nil: // one of a lane's late answers, maybe
		l.renewAt = now
		fallthrough
	default:
		l.lane, l.on = by.lane, by.on
	}
}

// part removes a lock.
func (l *lease) part(lk *Lock) bool {
	i := slices.Index(l.locks, lk)
	if i < 0 {
		return false
	}
	l.locks = slices.Delete(l.locks, i, i+1)
	lk.lease = nil
	l.ttl = 0
	for _, other := range l.locks {
		l.ttl = max(l.ttl, other.ttl)
	}
	return true
}

// renewal is when to renew a lease that was confirmed by a request sent at a time:
// at a third of the TTL, a little earlier by chance, so that locks taken together
// are not renewed together for ever.
func (l *lease) renewal(sent, ttl time.Duration) time.Duration {
	third := ttl / renewAt
	return sent + third - rand.N(third/10+1)
}

// attend does what the lease needs now.
func (l *lease) attend(now time.Duration, todo *chores) {
	k := l.k
	switch {
	case l.deadline() <= now:
		l.end(ErrUncertain, wire.ReasonUnspecified, l.lastFail, todo)
		return
	case l.watchAt != 0 && l.watchAt <= now:
		l.watchAt = 0
		if k.mu.watching < k.mu.watches {
			k.mu.watching++
			l.sub = k.c.subs.make(l.name.owner, watchedKinds)
			todo.watch = append(todo.watch, l)
		}
	case !l.asking && l.renewAt <= now:
		l.renew(todo)
	}
	k.fix(l)
}

// renew asks for the lease's renewal.
func (l *lease) renew(todo *chores) {
	l.asking, l.askedTTL = true, l.ttl
	c := newCall(l)
	c.set(&wire.Request{
		Op: wire.OpRenew, Owner: l.name.owner, TTLMillis: millis(l.ttl), Domains: l.domains[:], Flags: wire.FlagBind,
	})
	c.urgent, c.timed = true, true
	todo.calls = append(todo.calls, c)
}

// land implements receiver: it takes the answer to a renewal.
func (l *lease) land(c *call, r *reply) {
	res := &r.scratch
	sent := c.sent
	err := r.decode(c, res)
	c.free()
	var todo chores
	l.k.mu.Lock()
	if l.place >= 0 {
		l.asking = false
		switch {
		case err != nil:
			l.failed(err)
		case res.Status != wire.StatusOK:
			l.end(ErrExpired, res.Reason, nil, &todo)
		default:
			l.confirmed(sent, r.on, r.lane)
			if res.Flag {
				todo.asked = append(todo.asked, l.locks...)
			}
		}
		if l.place >= 0 {
			l.k.fix(l)
		}
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// confirmed takes note of a renewal that was sent at a time and answered on a
// connection.
func (l *lease) confirmed(sent time.Duration, on uint64, lane *lane) {
	l.sure = sent + l.askedTTL - margin(l.askedTTL)
	l.renewAt = l.renewal(sent, l.askedTTL)
	l.on, l.lane, l.fails, l.lastFail = on, lane, 0, nil
	if l.k.firm(l, on, lane) {
		l.limit = 0
	}
}

// failed takes note that a renewal was refused.
func (l *lease) failed(err error) {
	l.lastFail = err
	l.renewAt = l.k.c.now() + min(backoff(l.fails, minRenewRetry, maxRenewRetry), l.ttl/10)
	l.fails++
}

// end declares the lease's locks lost.
func (l *lease) end(cause error, reason wire.Reason, last error, todo *chores) {
	for _, lk := range l.locks {
		lk.lease = nil
		lk.fate = &LostError{Path: lk.paths[0].Path, Cause: cause, Reason: reason, Last: last}
		todo.lost = append(todo.lost, lk)
	}
	l.locks = nil
	l.forget(todo)
}

// forget stops to keep the lease.
func (l *lease) forget(todo *chores) {
	k := l.k
	k.mu.due.remove(l)
	delete(k.mu.leases, l.name)
	if l.sub != nil {
		k.mu.watching--
		todo.leave = append(todo.leave, l.sub)
	}
}

// watchedKinds is what a lease wants to hear of.
const watchedKinds uint64 = 1<<wire.EventKilled | 1<<wire.EventRevoke | 1<<wire.EventExpired

// subscribe begins to watch the lease.
func (l *lease) subscribe() {
	l.k.c.subs.start(l.sub, l.heard, func(err error) {
		if err == nil {
			l.recheck() // something may have happened before
		}
	})
}

// recheck renews the lease now.
func (l *lease) recheck() {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if l.place >= 0 && !l.asking {
		l.renewAt = l.k.c.now()
		l.k.fix(l)
	}
}

// heard takes an event of the lease's owner.
func (l *lease) heard(e Event) {
	var todo chores
	l.k.mu.Lock()
	now := l.k.c.now()
	switch {
	case l.place < 0 || e.Namespace != "" && e.Namespace != l.name.namespace:
	case e.Kind == wire.EventRevoke:
		todo.asked = append(todo.asked, l.locks...)
	case e.Kind == wire.EventKilled && now-l.granted >= watchAfter:
		l.end(ErrKilled, wire.ReasonUnspecified, nil, &todo)
	case !l.asking:
		// A gap; or an end that may be that of an earlier lease of the same name, taken
		// again just before: the server knows.
		l.renewAt = now
		l.k.fix(l)
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// millis rounds a duration up to whole milliseconds.
func millis(d time.Duration) uint64 {
	return uint64((d + time.Millisecond - 1) / time.Millisecond)
}
