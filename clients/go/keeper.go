package pathlockd

import (
	"errors"
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
		live     uint64        // number of the connection, 0: there is none
		broke    time.Duration // when that was lost
		excused  bool          // its server went with it, and could end no lease
		cut      bool          // it ended from the other side
		watching int           // leases that hear of events
		watches  int           // how many may
		closed   bool
	}
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
		next := k.c.tend(k.c.now())
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
	if len(t.calls) > 0 {
		_ = c.session.submit(t.calls...) // refused only when the client is closed
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

// attached is called before anything is sent on a new connection: every lease is
// renewed there, so that it hangs on that one. (Renewals of before are asked again
// by the session.)
func (k *keeper) attached(on uint64, watches int) {
	k.mu.Lock()
	k.mu.live, k.mu.watches = on, min(maxWatched, watches)
	now := k.c.now()
	var todo chores
	for _, l := range k.mu.due {
		if l.on != on {
			l.renewAt = now
		}
	}
	k.reorder()
	for _, l := range k.mu.due {
		if !l.asking && l.renewAt <= now && l.deadline() > now {
			l.renew(&todo)
		}
	}
	k.reorder()
	k.mu.Unlock()
	todo.do(k.c)
}

// detached is called when the connection is gone. excused says that no lease ends
// for that, cut that the connection ended from the other side.
func (k *keeper) detached(excused, cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.live, k.mu.broke, k.mu.excused, k.mu.cut = 0, k.c.now(), excused, cut
	if excused {
		return
	}
	limit := k.limit()
	for _, l := range k.mu.due {
		if l.limit == 0 || l.limit > limit {
			l.limit = limit
		}
	}
	k.reorder()
	k.rouse(0)
}

// limit is until when leases last that hung on the connection that was lost.
func (k *keeper) limit() time.Duration {
	grace := k.c.opt.grace
	return max(k.mu.broke+grace-margin(grace), 1)
}

// excuseWithin is how soon after a connection was cut its server must turn out to be
// gone to have gone with it. One that lived on may have ended leases.
const excuseWithin = 250 * time.Millisecond

// excuse is called when nobody listens any more where the lost connection led to. If
// its server went with it, no lease is shorter for that: the death of a server is no
// disconnect.
func (k *keeper) excuse() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.excused || k.mu.live != 0 || !k.mu.cut || k.c.now()-k.mu.broke > excuseWithin {
		return
	}
	limit := k.limit()
	k.mu.excused = true
	for _, l := range k.mu.due {
		if l.limit == limit {
			l.limit = 0
		}
	}
	k.reorder()
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

// hold begins to keep the lock that an acquire took which was first sent at a time
// and answered on a connection.
func (k *keeper) hold(lk *Lock, sent time.Duration, on uint64) error {
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
	l.join(lk, sent, on, now)
	if on != k.mu.live {
		l.renewAt = now
		if !k.mu.excused {
			l.limit = k.limit()
		}
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

// tend looks after the connection itself, and answers when to look again.
func (c *Client) tend(now time.Duration) time.Duration {
	c.session.mu.Lock()
	cn := c.session.mu.conn
	leaving := c.session.mu.leaving
	c.session.mu.Unlock()
	if cn == nil {
		return now + aDay // attached wakes the keeper
	}
	every := c.opt.keepAlive
	heard := time.Duration(cn.heard.Load())
	switch {
	case now-heard >= 2*every:
		cn.giveUp(errSilent)
		return now + aDay
	case now-heard >= every && cn.pinged <= heard:
		cn.pinged = now
		ping := newCall(ignored{})
		ping.set(&wire.Request{Op: wire.OpPing})
		ping.urgent = true
		_ = c.session.submit(ping) // refused only when the client is closed
	}
	if leaving > 0 || now >= c.nextStale {
		c.nextStale = now + c.longestQueue/8
		cancelled, stale := c.session.overdue(now)
		for _, id := range cancelled {
			c.session.cancel(id)
		}
		if stale {
			cn.giveUp(errStale)
		}
	}
	if now-heard >= every {
		return min(heard+2*every, c.nextStale)
	}
	return min(heard+every, c.nextStale)
}
