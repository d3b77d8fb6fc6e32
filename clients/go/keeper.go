package pathlockd

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// keeper renews the leases of all the locks of a client, and declares them lost
// when their time is over. It is one goroutine (run) and a heap of leases by when
// each needs something next, so that a held lock costs no goroutine and no timer.
//
// A lease surely lasts until ttl after the request that took or renewed it was
// first sent, less a margin: the server started to count later than that. It also
// ends a grace after its connection does, unless it was renewed on the next one; so
// it is sure for no longer than a grace after the last sign of life of its connection
// (tie). Replies come in on the reader's goroutine (lease.land).
type keeper struct {
	c    *Client
	wake chan struct{}
	// What gives back the locks of owners that had none when it was sent; made when the first such request is.
	given atomic.Pointer[[givenBuckets]given]
	count atomic.Int64 // of leases: who keeps none need not take the lock to see that
	mu    struct {
		sync.Mutex
		leases    map[leaseName]*lease
		asked     map[string][]*Lock    // for which somebody waits, by the owner that the program names
		shorter   map[string][]*shorter // what shortens an owner's leases and is under way
		lingering int                   // of shorter, those that nobody answers any more
		due       leaseHeap
		low       map[*lease]struct{} // of due, those with a lower grace than the client's own
		asleep    time.Duration       // until when run sleeps
		awake     bool                // it looks around
		again     bool                // and is to look once more: what it has looked at may have changed since
		lanes     []*lane             // that had a connection
		watching  int                 // leases that hear of events
		watches   int                 // how many may
		early     [unclaimed]early    // acquires that something was said of before their locks were kept (told.go)
		earlier   int                 // how many there were
		missed    time.Duration       // when the client may have missed or forgotten something of that last, 0: never
		closed    bool
	}
}

// Limits and times of the keeper.
const (
	// renewAt is the part of the TTL after which a lease is renewed: one in renewAt.
	renewAt = 3
	// marginShare of a TTL or a grace, but at most maxMargin, and driftShare of it, are
	// how much earlier than by the sum of it a lease is taken to end: whoever is told
	// needs time to stop, and clocks do not run alike.
	marginShare = 20
	maxMargin   = time.Second
	driftShare  = 1000
	// watchAfter is how long a lock is held before the client subscribes to its
	// owner's events, to hear at once when it is killed or asked to let go: if the server
	// does not tell that by itself, or another client may share the lease.
	watchAfter = time.Second
	// maxWatched is how many leases are watched so at once, or half of the
	// subscriptions a server takes if that is less. The others hear of it when they
	// are renewed, and of owners that the program names it is asked then what they hold.
	maxWatched = 128
	// minRenewRetry and maxRenewRetry bound the pauses between attempts to renew.
	minRenewRetry = 20 * time.Millisecond
	maxRenewRetry = 2 * time.Second
	// lookEvery is how often run looks at the clock while there are leases: that is how
	// long after a suspension a lock may count as held that is not, unless it is asked.
	lookEvery = time.Second
	// aDay is how long run sleeps that has nothing to do.
	aDay = 24 * time.Hour
)

// margin is how much earlier a span of time is taken to be over.
func margin(d time.Duration) time.Duration {
	if planted == plantThinMargin {
		return min(d/marginShare, maxMargin)
	}
	return min(d/marginShare, maxMargin) + d/driftShare
}

func (k *keeper) init(c *Client) {
	k.c, k.wake = c, make(chan struct{}, 1)
	k.mu.leases = make(map[leaseName]*lease)
}

// run does what is due until the client is closed.
func (k *keeper) run() {
	t := time.NewTimer(aDay)
	defer t.Stop()
	for {
		k.wakes()
		now := k.c.now()
		next := k.c.router.tend(now)
		for _, l := range k.c.router.all() {
			next = min(next, l.tend(now))
		}
		next = min(next, k.work())
		wait := max(next-k.c.now(), 0)
		if k.keeps() { // timers do not run while the machine is suspended
			wait = min(wait, lookEvery)
		}
		t.Reset(wait)
		select {
		case <-k.c.ctx.Done():
			return
		case <-k.wake:
		case <-t.C:
		}
	}
}

// wakes takes note that run begins to look around.
func (k *keeper) wakes() {
	k.mu.Lock()
	k.mu.awake, k.mu.again = true, false
	k.mu.Unlock()
}

// work does what is due and answers when something is again.
func (k *keeper) work() time.Duration {
	k.mu.Lock()
	var todo chores
	now := k.c.now()
	again := k.mu.again
	for len(k.mu.due) > 0 && k.mu.due[0].at <= now {
		k.mu.due[0].attend(now, &todo)
	}
	next := now + aDay
	switch {
	case again:
		next = now
	case len(k.mu.due) > 0:
		next = k.mu.due[0].at
	}
	k.mu.asleep, k.mu.awake = next, false
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
	switch {
	case k.mu.awake:
		// It sees to the leases last: what is due of them is not missed. But it may have seen to the connections when
		// nothing relied on them.
		k.mu.again = k.mu.again || at == 0 || len(k.mu.due) == 1
		return
	case at >= k.mu.asleep:
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

// heed has run look whether something is answered in time (router.tardy), if it does not do so every second for the
// locks that there are: to look at all of them for each release would cost more than the release.
func (k *keeper) heed() {
	if !k.keeps() {
		k.nudge()
	}
}

// hold begins to keep the lock that a request took, or confirmed.
func (k *keeper) hold(lk *Lock, by *answer) error {
	var todo chores
	defer func() { todo.do(k.c) }()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return ErrClosed
	}
	if lk.crossed {
		return errCrossed
	}
	name := leaseName{lk.owner, lk.namespace}
	if l := k.mu.leases[name]; l != nil { // of which the lock may be no part
		k.expire(l, &todo)
	}
	l := k.mu.leases[name]
	now := k.c.now()
	if l == nil {
		l = &lease{k: k, name: name, place: -1, watchAt: now + watchAfter, grace: unlimited, page: wire.MaxDumpPage}
		k.mu.leases[name] = l
		k.count.Add(1)
		l.graced(k.c.binds.grace(lk.owner, k.c.opt.grace))
	}
	if lk.curbs.later(by) {
		l.graced(min(l.grace, lk.curbs.grace))
	}
	l.join(lk, by, now)
	if !lk.alone {
		l.held(lk, by.sent, by.seen)
		if k.raises(lk) {
			l.learn(&todo)
		}
	}
	if said, end := k.saidEarly(lk, by.sent); said {
		l.suspect()
		if end != 0 {
			l.mayBeOver(end)
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

// over says that a lock is not kept, or that its time is over: then it is lost, and what else is over with it.
func (k *keeper) over(lk *Lock) bool {
	k.mu.Lock()
	var todo chores
	if lk.lease != nil {
		k.expire(lk.lease, &todo)
	}
	over := lk.lease == nil
	k.mu.Unlock()
	todo.do(k.c)
	return over
}

// expire ends what is over of a lease by now, which run may not have noticed yet, as after a suspension.
func (k *keeper) expire(l *lease, todo *chores) {
	now := k.c.now()
	if l.deadline() > now {
		return
	}
	if l.expire(now, todo); l.place >= 0 {
		k.fix(l)
	}
}

// drop ends the keeping of a lock, and of those that go with it. What is left to do then is the
// caller's. It answers what gives the lock back; of one that is lost why.
func (k *keeper) drop(lk *Lock) (todo chores, b *giveBack, fate *LostError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := lk.lease
	if l == nil { // it is lost: what it gives back is no other lock's
		return todo, nil, lk.fate
	}
	k.cross(lk)
	until := l.deadline()
	l.part(lk)
	gone := l.along(lk, &todo)
	if len(l.locks) == 0 {
		l.forget(&todo)
	}
	return todo, lk.giveBack(until, gone, l.shared), nil
}

// succeeded says that a later lock of its owner has one of a lock's paths, or may have.
func (k *keeper) succeeded(lk *Lock) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.mu.asked[lk.owner]
	if l := k.mu.leases[leaseName{lk.owner, lk.namespace}]; l != nil {
		all = slices.Concat(all, l.locks)
	}
	some := on(lk.paths)
	return slices.ContainsFunc(all, func(other *Lock) bool { return other != lk && other.meets(some) })
}

// raises reports whether an acquire of its owner is under way that raises the token of a lock when it is granted.
func (k *keeper) raises(lk *Lock) bool {
	some := on(lk.paths)
	return slices.ContainsFunc(k.mu.asked[lk.owner], func(other *Lock) bool {
		return other != lk && other.meets(func(p Path) bool { return p.Mode == Write && some(p) })
	})
}

// leave declares everything lost, and answers what gives it back.
func (k *keeper) leave() (rels []*giveBack) {
	k.mu.Lock()
	k.mu.closed = true
	for _, l := range k.mu.leases {
		for _, lk := range l.locks {
			rels = append(rels, lk.giveBack(l.deadline(), nil, l.shared))
		}
	}
	var todo chores
	for len(k.mu.due) > 0 {
		k.mu.due[0].end(ErrClosed, wire.ReasonUnspecified, nil, &todo)
	}
	k.mu.Unlock()
	todo.leave = nil
	todo.do(k.c)
	return rels
}
