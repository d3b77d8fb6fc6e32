package pathlockd

import (
	"context"
	"slices"
	"sync"
	"time"
)

// way is by which lane the requests about the namespaces of one group go.
//
// Requests of a session about one namespace are carried out in the order in which
// they were sent, and callers rely on it: a release and the next acquire may go
// without waiting in between. Two lanes are two sessions. So a way changes its lane
// only when everything that was sent by the old one has its answer, or is known to
// be in the queue; what is asked meanwhile is held back, for a round trip. If the old
// lane has lost its node, its session settles what is open on another one first.
//
// Reads are in no order, and only ask a way for its lane.
type way struct {
	c    *Client
	then func() // called when nothing is open any more; nil: nothing
	mu   struct {
		sync.Mutex
		lane  *lane
		next  *lane         // it is about to change to; nil: it is not
		since time.Duration // when that was tried first, or lane last given up (Client.now)
		slow  time.Duration // how long it takes lane to answer, before that is given up the next time
		open  int           // requests sent by lane that are not settled
		held  callQueue
		count int             // of held
		room  []chan struct{} // who waits for it to shrink
	}
}

// flusher is a connection that somebody has to flush, once no lock is held.
type flusher struct {
	cn    *conn
	crowd bool
}

func (f flusher) flush() {
	if f.cn != nil {
		f.cn.flush(f.crowd)
	}
}

// put sends a call by the way, or holds it back.
func (w *way) put(one *call) (flusher, error) {
	one.way = w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.next == nil {
		return w.send(one)
	}
	if one.async && !one.pressed && w.mu.count >= w.c.opt.backlog {
		return flusher{}, ErrBacklog
	}
	w.hold(one)
	return flusher{}, nil
}

// send gives a call to the lane. Called under the lock.
func (w *way) send(one *call) (flusher, error) {
	one.counts, one.settled = w, false
	f, err := w.mu.lane.session.put(one)
	if err != nil {
		one.counts = nil
		return f, err
	}
	w.mu.open++
	return f, nil
}

// lane answers by which lane a read goes.
func (w *way) lane() *lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.lane
}

// settled takes note that a call of the way has its answer, or will never get one.
func (w *way) settled() {
	w.mu.Lock()
	w.mu.open--
	f, failed := w.turn()
	last := w.mu.open == 0
	w.mu.Unlock()
	f.flush()
	w.c.failEach(failed)
	if last && w.then != nil {
		w.then()
	}
}

// moveTo makes a lane the way's, now or as soon as that keeps the order. The caller
// is to flush, and to fail the calls that are answered.
func (w *way) moveTo(l *lane) (f flusher, failed []failedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.next == nil {
		w.mu.since, w.mu.slow = w.c.now(), slowWay
	}
	if w.mu.next = l; l != w.mu.lane {
		w.recall()
	}
	return w.turn()
}

// slowWay is how long a node may take to answer what is under way to it once another one leads. After that it is asked
// for through another node: one that is cut off from its peers, and not from the client, answers pings.
const slowWay = 2 * time.Second

// turning says that the way is about to change its lane. Called under the lock.
func (w *way) turning() bool { return w.mu.next != nil && w.mu.next != w.mu.lane && w.mu.open > 0 }

// stuck answers the lane that the way cannot leave, as its node does not answer; nil when there is none, and when to
// look again.
func (w *way) stuck(now time.Duration) (l *lane, again time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.turning() {
		return nil, now + aDay
	}
	since := max(w.mu.since, time.Duration(w.mu.lane.upSince.Load()))
	if now-since >= w.mu.slow {
		w.mu.since, w.mu.slow = now, 2*w.mu.slow
		l, since = w.mu.lane, now
	}
	return l, since + w.mu.slow
}

// pending is turning, called without the lock.
func (w *way) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turning()
}

// goesBy says that a lane is the way's, or about to be.
func (w *way) goesBy(l *lane) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.lane == l && w.mu.next == nil || w.mu.next == l
}

// hasRoom waits until the way holds less back than the backlog takes.
func (w *way) hasRoom(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.mu.next == nil || w.mu.count < w.c.opt.backlog {
			w.mu.Unlock()
			return nil
		}
		ready := make(chan struct{})
		w.mu.room = append(w.mu.room, ready)
		w.mu.Unlock()
		select {
		case <-ready:
		case <-w.c.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			w.mu.Lock()
			w.mu.room = slices.DeleteFunc(w.mu.room, func(other chan struct{}) bool { return other == ready })
			w.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// recall holds back what the lane has not sent yet: it may wait there for what has nothing to do with the way, as
// for room in the window. Called under the lock.
func (w *way) recall() {
	unsent := w.mu.lane.session.recall(w)
	for i := len(unsent) - 1; i >= 0; i-- { // before what came later
		one := unsent[i]
		one.counts = nil
		w.mu.open--
		one.held = true
		w.mu.held.unshift(one)
		w.mu.count++
	}
}

// failedCall is a call that was not taken, and why.
type failedCall struct {
	one *call
	err error
}

// turn changes the lane, if that is to be and can be, and sends what was held back.
// Called under the lock.
func (w *way) turn() (f flusher, failed []failedCall) {
	if w.mu.next == nil || w.mu.next != w.mu.lane && w.mu.open > 0 {
		return f, nil
	}
	w.mu.lane, w.mu.next = w.mu.next, nil
	for one := w.mu.held.first; one != nil; one = w.mu.held.first {
		w.let(one)
		one.pressed = true // it had room here
		mine, err := w.send(one)
		if err != nil {
			failed = append(failed, failedCall{one, err})
		} else if mine.cn != nil {
			f = mine
		}
	}
	return f, failed
}

// use notes by which lanes the way leads, or is about to.
func (w *way) use(used map[*lane]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used[w.mu.lane] = true
	if w.mu.next != nil {
		used[w.mu.next] = true
	}
}

// forsake is called for a call of the way whose caller has gone, as session.forsake.
func (w *way) forsake(one *call) (unsent bool) {
	w.mu.Lock()
	if one.held {
		defer w.mu.Unlock()
		w.let(one)
		return true
	}
	if one.session == nil {
		w.mu.Unlock()
		return false // the client is being closed, and it is told so
	}
	then := one.session.forsakes(one) // before the way recalls it
	w.mu.Unlock()
	return then()
}

// hold holds a call back, and let lets it go. Called under the lock.
func (w *way) hold(one *call) {
	one.held = true
	w.mu.held.push(one)
	w.mu.count++
}

func (w *way) let(one *call) {
	one.held = false
	w.mu.held.remove(one)
	if w.mu.count--; w.mu.count < w.c.opt.backlog {
		for _, ready := range w.mu.room {
			close(ready)
		}
		w.mu.room = nil
	}
}

// shut answers what the way holds back, to be told that the client is closed.
func (w *way) shut() (calls []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := w.mu.held.first; one != nil; one = w.mu.held.first {
		w.let(one)
		calls = append(calls, one)
	}
	return calls
}
