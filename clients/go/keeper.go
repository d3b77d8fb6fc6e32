package pathlockd

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// keeper renews the leases of all the locks of a client, and declares them lost
// when their time is over. It is one goroutine (run) and a heap of leases by when
// each needs something next, so that a held lock costs no goroutine and no timer.
//
// A lease surely lasts until ttl after the request that took or renewed it was
// first sent, less a margin: the server started to count later than that. It also
// ends a grace after its connection does, unless it was renewed on the next one, so
// a lost connection shortens what is sure. Replies come in on the reader's
// goroutine (lease.land).
type keeper struct {
	c    *Client
	wake chan struct{}
	mu   struct {
		sync.Mutex
		leases   map[leaseName]*lease
		due      leaseHeap
		asleep   time.Duration // until when run sleeps
		lanes    []*lane       // that had a connection
		watching int           // leases that hear of events
		watches  int           // how many may
		closed   bool
	}
}

// tie is what the keeper knows of a lane's connection.
type tie struct {
	live    uint64              // its number, 0: there is none
	broke   time.Duration       // when the last one was lost
	excused bool                // its server went with it, and could end no lease
	cut     bool                // it ended from the other side
	unsure  map[string]struct{} // owners whose leases may hang on it, as what asked for that is unanswered
}

// Limits and times of the keeper.
const (
	// renewAt is the part of the TTL after which a lease is renewed: one in renewAt.
	renewAt = 3
	// marginShare of a TTL or a grace, but at most maxMargin, is how much earlier than
	// by the sum of it a lease is taken to end: clocks do not run alike, and whoever
	// is told needs time to stop.
	marginShare = 20
	maxMargin   = time.Second
	// watchAfter is how long a lock is held before the client subscribes to its
	// owner's events, to hear at once when it is killed or asked to let go.
	watchAfter = time.Second
	// maxWatched is how many leases are watched so at once, or half of the
	// subscriptions a server takes if that is less. The others hear of it when they
	// are renewed.
	maxWatched = 128
	// minRenewRetry and maxRenewRetry bound the pauses between attempts to renew.
	minRenewRetry = 20 * time.Millisecond
	maxRenewRetry = 2 * time.Second
	// aDay is how long run sleeps that has nothing to do.
	aDay = 24 * time.Hour
)

// margin is how much earlier a span of time is taken to be over.
func margin(d time.Duration) time.Duration { return min(d/marginShare, maxMargin) }

func (k *keeper) init(c *Client) {
	k.c, k.wake = c, make(chan struct{}, 1)
	k.mu.leases = make(map[leaseName]*lease)
}

// run does what is due until the client is closed.
func (k *keeper) run() {
	t := time.NewTimer(aDay)
	defer t.Stop()
	for {
		now := k.c.now()
		next := k.c.router.tend(now)
		for _, l := range k.c.router.all() {
			next = min(next, l.tend(now))
		}
		next = min(next, k.work())
		t.Reset(max(next-k.c.now(), 0))
		select {
		case <-k.c.ctx.Done():
			return
		case <-k.wake:
		case <-t.C:
		}
	}
}

// work does what is due and answers when something is again.
func (k *keeper) work() time.Duration {
	k.mu.Lock()
	var todo chores
	now := k.c.now()
	for len(k.mu.due) > 0 && k.mu.due[0].at <= now {
		k.mu.due[0].attend(now, &todo)
	}
	next := now + aDay
	if len(k.mu.due) > 0 {
		next = k.mu.due[0].at
	}
	k.mu.asleep = next
	k.mu.Unlock()
	todo.do(k.c)
	return next
}

// chores is what is found to be done under the keeper's lock, and done after it.
type chores struct {
	calls []*call
	lost  []*Lock
	asked []*Lock // to let go
	watch []*lease
	leave []*Subscription
}

func (t *chores) do(c *Client) {
	var written []flusher // together, as far as they go one way
	for _, one := range t.calls {
		if f, err := c.put(one, nil); err == nil && f.cn != nil { // refused only when the client is closed
			written = append(written, f)
		}
	}
	for _, f := range written {
		f.flush()
	}
	for _, l := range t.lost {
		l.lose()
	}
	for _, l := range t.asked {
		l.revoke()
	}
	for _, l := range t.watch {
		l.subscribe()
	}
	for _, s := range t.leave {
		s.Close()
	}
}

// rouse makes run look around if something is due before it would.
func (k *keeper) rouse(at time.Duration) {
	if at >= k.mu.asleep {
		return
	}
	k.mu.asleep = at
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// watch says how many leases may be watched, as far as the server is concerned.
func (k *keeper) watch(most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.watches = min(maxWatched, most)
}

// attached is called before anything is sent on a new connection of a lane: every
// lease that hung on the last one is renewed, so that it hangs on one that lives.
// (Renewals of before are asked again by the session.)
func (k *keeper) attached(l *lane, on uint64) {
	k.mu.Lock()
	if !slices.Contains(k.mu.lanes, l) {
		k.mu.lanes = append(k.mu.lanes, l)
	}
	l.tie.live, l.tie.unsure = on, nil
	now := k.c.now()
	var todo chores
	for _, le := range k.mu.due {
		if le.lane == l && le.on != on || le.limit != 0 {
			le.renewAt = now
		}
	}
	k.reorder()
	for _, le := range k.mu.due {
		if !le.asking && le.renewAt <= now && le.deadline() > now {
			le.renew(&todo)
		}
	}
	k.reorder()
	k.mu.Unlock()
	todo.do(k.c)
}

// detached is called when the connection of a lane is gone. excused says that no
// lease ends for that, cut that the connection ended from the other side.
func (k *keeper) detached(l *lane, excused, cut bool, unsure map[string]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.tie = tie{broke: k.c.now(), excused: excused, cut: cut, unsure: unsure}
	if excused {
		return
	}
	for _, le := range k.mu.due {
		le.limit = k.limited(le)
	}
	k.reorder()
	k.rouse(0)
}

// limited is until when a lease lasts that hangs, or may hang, on a connection that
// was lost; 0 when it does not, or the limit of before if that is earlier.
func (k *keeper) limited(le *lease) time.Duration {
	limit := le.limit
	for _, l := range k.mu.lanes {
		if at := k.limit(l); l.ends(le) && (limit == 0 || at < limit) {
			limit = at
		}
	}
	return limit
}

// ends says that a lease may end as the connection of a lane was lost.
func (l *lane) ends(le *lease) bool {
	if l.tie.live != 0 || l.tie.excused {
		return false
	}
	_, unsure := l.tie.unsure[le.name.owner]
	return unsure || le.lane == l
}

// limit is until when leases last that hung on the connection that a lane lost.
func (k *keeper) limit(l *lane) time.Duration {
	grace := k.c.opt.grace
	return max(l.tie.broke+grace-margin(grace), 1)
}

// firm says that a lease which was just confirmed on a connection of a lane hangs on
// that alone, and that it lives.
func (k *keeper) firm(le *lease, on uint64, l *lane) bool {
	return on == l.tie.live && !slices.ContainsFunc(k.mu.lanes, func(other *lane) bool { return other != l && other.ends(le) })
}

// excuseWithin is how soon after a connection was cut its server must turn out to be
// gone to have gone with it. One that lived on may have ended leases.
const excuseWithin = 250 * time.Millisecond

// excuse is called when nobody listens any more where a lane's lost connection led
// to. If its server went with it, no lease is shorter for that: the death of a server
// is no disconnect.
func (k *keeper) excuse(l *lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.tie.excused || l.tie.live != 0 || !l.tie.cut || k.c.now()-l.tie.broke > excuseWithin {
		return
	}
	limit := k.limit(l)
	l.tie.excused = true
	for _, le := range k.mu.due {
		if le.limit == limit {
			le.limit = 0
			le.limit = k.limited(le)
		}
	}
	k.reorder()
}

// tied says on which lanes leases hang.
func (k *keeper) tied() map[*lane]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	on := make(map[*lane]bool)
	for _, le := range k.mu.due {
		on[le.lane] = true
	}
	return on
}

// forget is called when a lane is over.
func (k *keeper) forget(l *lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.lanes = slices.DeleteFunc(k.mu.lanes, func(other *lane) bool { return other == l })
}

// reorder puts the heap in order after many leases have changed.
func (k *keeper) reorder() {
	for _, l := range k.mu.due {
		l.at = l.next()
	}
	k.mu.due.init()
}

// nudge makes run look around.
func (k *keeper) nudge() {
	k.mu.Lock()
	k.rouse(0)
	k.mu.Unlock()
}

// hold begins to keep the lock that a request took, or confirmed.
func (k *keeper) hold(lk *Lock, by *answer) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return ErrClosed
	}
	name := leaseName{lk.owner, lk.namespace}
	l := k.mu.leases[name]
	now := k.c.now()
	if l == nil {
		l = &lease{k: k, name: name, place: -1, watchAt: now + watchAfter}
		k.mu.leases[name] = l
	}
	l.join(lk, by, now)
	if by.on != by.lane.tie.live {
		l.renewAt = now
		if !by.lane.tie.excused {
			l.limit = k.limit(by.lane)
		}
	} else if !k.firm(l, by.on, by.lane) {
		l.renewAt, l.limit = now, k.limited(l)
	}
	k.fix(l)
	return nil
}

// fix puts a lease where it belongs in the heap.
func (k *keeper) fix(l *lease) {
	l.at = l.next()
	if l.place < 0 {
		k.mu.due.push(l)
	} else {
		k.mu.due.moved(l)
	}
	k.rouse(k.mu.due[0].at)
}

// drop ends the keeping of a lock. What is left to do then is the caller's.
func (k *keeper) drop(lk *Lock) (todo chores) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := lk.lease
	if l == nil || !l.part(lk) {
		return todo
	}
	if len(l.locks) == 0 {
		l.forget(&todo)
	}
	return todo
}

// close declares everything lost.
func (k *keeper) close() {
	k.mu.Lock()
	k.mu.closed = true
	var todo chores
	for len(k.mu.due) > 0 {
		k.mu.due[0].end(ErrClosed, wire.ReasonUnspecified, nil, &todo)
	}
	k.mu.Unlock()
	todo.leave = nil
	todo.do(k.c)
}

// errSilent says why a connection was given up on which nothing came any more.
var errSilent = errors.New("the server is silent")

// errStale says why a connection was given up so that those who wait keep their
// places.
var errStale = errors.New("connecting again, to wait on")
