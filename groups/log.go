package groups

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// window is how many batches of a log are under way at once: the next is
	// proposed while the last is being applied (docs/decisions/0005).
	window = 2
	// tickEvery is how long a log with armed deadlines goes without an entry.
	tickEvery = time.Second
	// retryAfter is how long a refused proposal waits.
	retryAfter = 2 * time.Millisecond
)

var _ [raft.MaxAwaited - window - 1]struct{} // run waits for them and a leader epoch entry at once

// shardLog is one replicated log as the node that leads it drives it: a queue of
// commands, which are batched, stamped and proposed by one goroutine (run), or at
// once by who queued one while nothing was under way: that saves a change of
// goroutine, which a lone request feels.
//
// Commands of a session keep their order: they are queued in it, batched in it,
// and put back in front when a batch is known not to have been applied (inflight.go).
//
// While another node leads, the queue goes there (forwarded.go); and what other nodes
// forward to this one stands in the same queue (inbound.go).
type shardLog struct {
	shard   uint64
	node    *Node
	process uint64 // incarnation of this process
	raft    raft.Log
	// local is this node's replica, nil while it has none.
	local   atomic.Pointer[replica.Machine]
	clock   replica.Clock
	log     *slog.Logger
	timeout time.Duration // how long a request may take

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	runs bool // run was begun, which closes done; not changed once the node has started
	lead atomic.Pointer[leadership]
	held atomic.Uint64 // term of the leader epoch this process holds, 0 for none

	mu struct {
		sync.Mutex
		queue   []*part
		batches map[uint64]*inFlight // by number
		order   order
		// since when batches in flight are waited for though another node leads, 0: they are not
		overdue   time.Duration
		forwarded forwardedParts
		suspect   bool // the queue may have parts in it that must not be proposed
		closed    bool
		// what the log had as the leader epoch began: nothing is proposed before that is looked through (seek)
		found *replica.OpenCalls
	}
	followed followed      // of run alone
	looked   time.Duration // when it was last looked who waits too long; of run alone
	unfollow atomic.Bool   // what run followed may not be all: it is to look again
	// who does not want to wait was refused by a node that leads no more: run is to look at that
	hastyBack atomic.Bool
	missed    atomic.Bool // what a snapshot took the place of may have answered calls that are open here

	// drive is held while something is proposed, and before mu. Raft's answers are
	// heard by run alone.
	drive struct {
		sync.Mutex
		number   uint64 // of the last batch
		term     uint64 // of the leader epoch it was numbered in
		writer   replica.BatchWriter
		under    []underWay
		awaited  [window + 1]raft.Pending // what turn returns
		taking   underWay                 // a leader epoch entry, its pending nil: none is
		lastSent time.Duration
		stamped  int64 // the last stamp proposed
		retryAt  time.Duration
		hold     time.Duration // nothing is proposed before: the leadership is being handed over
		ends     bool          // ends that come first were under way when it was last looked
		until    int64         // of the lease clock: then what they ended last is over
	}
}

func newShardLog(n *Node, shard uint64) *shardLog {
	l := &shardLog{
		shard: shard, node: n, process: n.process, clock: n.clock,
		log: n.log.With("log", shard), timeout: n.cfg.RequestTimeout,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	l.mu.batches = make(map[uint64]*inFlight)
	l.mu.forwarded.parts = make(map[uint64]*part)
	l.lead.Store(&leadership{})
	return l
}

// push queues a command, which goes on its way with the next start. It never
// blocks; the caller has checked the limits.
func (l *shardLog) push(p *part) {
	if !l.enqueue(p) {
		l.node.settle([]*part{p}, &logClosed)
	}
}

// pushIf is push, if something is so with the queue locked; else it answers false.
func (l *shardLog) pushIf(p *part, is func() bool) bool {
	l.mu.Lock()
	so := is()
	queued := so && l.add(p)
	l.mu.Unlock()
	if so && !queued {
		l.node.settle([]*part{p}, &logClosed)
	}
	return so
}

// enqueue is push, but answers false where the log is closed.
func (l *shardLog) enqueue(p *part) bool {
	if p.log == nil { // else others may look at it already
		p.log = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(p)
}

// add is enqueue, called under the lock.
func (l *shardLog) add(p *part) bool {
	if l.mu.closed {
		return false
	}
	l.mu.queue = append(l.mu.queue, p)
	// it may be closed since its frame is read
	if p.ofOneTerm() && l.mine() != p.term || p.from != nil && p.from.closed.Load() {
		l.mu.suspect = true
	}
	return true
}

// start proposes what was queued, if nothing is under way, or sends it to the leader,
// and else leaves it to run. It never blocks: it may be called where a connection is
// read.
func (l *shardLog) start() {
	if l.drive.TryLock() {
		if len(l.drive.under) == 0 && (l.leads() || l.mine() == 0) {
			l.work()
		}
		l.drive.Unlock()
	}
	l.kick()
}

// kick makes run look around.
func (l *shardLog) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run drives the log until stop is closed.
func (l *shardLog) run() {
	defer close(l.done)
	for {
		wait, under := l.turn()
		l.raft.Await(wait, l.wake, l.stop, under...)
		select {
		case <-l.stop:
			return
		default:
		}
	}
}

// turn does what there is to do, and returns how long there is nothing, unless one of
// what is under way is answered. It is of run alone; its result is good until the next.
func (l *shardLog) turn() (wait time.Duration, under []raft.Pending) {
	l.hear()
	l.expire()
	l.follow()
	l.unblock()
	l.seek()
	l.drive.Lock()
	defer l.drive.Unlock()
	l.work()
	under = l.drive.awaited[:0]
	for _, u := range l.drive.under {
		under = append(under, u.Pending)
	}
	if l.drive.taking.Pending != nil {
		under = append(under, l.drive.taking.Pending)
	}
	return l.pause(), under
}

// pause is how long run has nothing to do.
func (l *shardLog) pause() time.Duration {
	// From the last look for those that waited too long (expire), whatever has woken run since: else one
	// could come twice as late.
	d := max(l.looked+min(l.timeout/4, waitSlack)-l.clock.Mono(), 0)
	if l.mine() != 0 { // else nobody clears them, and nothing waits for them
		for _, at := range []time.Duration{l.drive.retryAt, l.drive.hold} {
			if at != 0 {
				d = min(d, max(at-l.clock.Mono(), 0))
			}
		}
	}
	if due, ok := l.tickDue(); ok {
		d = min(d, max(due-l.clock.Mono(), 0))
	}
	if due, ok := l.forwardedDue(); ok {
		d = min(d, max(due-l.clock.Mono(), 0))
	}
	return max(d, 100*time.Microsecond)
}

// tickDue is when the log needs an entry though nobody asks for one: at the next
// deadline, and at the latest tickEvery after the last entry, so that a successor
// starts from a fresh stamp.
func (l *shardLog) tickDue() (time.Duration, bool) {
	m := l.local.Load()
	if m == nil || !l.leads() || len(l.drive.under) >= window || l.drive.retryAt > 0 || l.drive.hold > 0 || l.hasGap() {
		return 0, false // when one may be proposed again, run looks again
	}
	at, deadline := m.NextDeadline()
	every := l.drive.lastSent + tickEvery
	switch {
	case deadline == 0:
		return 0, false
	case len(l.drive.under) > 0 && l.drive.stamped >= deadline: // what is under way brings it
		return every, true
	}
	return min(at, every), true
}

// doubt has the queue looked through for what must not be proposed any more.
func (l *shardLog) doubt() {
	l.mu.Lock()
	l.mu.suspect = true
	l.mu.Unlock()
	l.kick()
}

// idle says that nothing is queued or under way but calls that wait.
func (l *shardLog) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.mu.queue {
		if !p.told.Load() {
			return false
		}
	}
	for _, p := range l.mu.forwarded.parts {
		if p != nil && !p.told.Load() {
			return false
		}
	}
	return len(l.mu.batches) == 0
}

// close refuses what is queued and stops run.
func (l *shardLog) close() {
	close(l.stop)
	if l.runs {
		l.node.tasks.wait(forever, l.done)
	}
	l.mu.Lock()
	l.mu.closed = true
	var queued, unknown []*part
	for _, p := range slices.Concat(l.mu.queue, l.mu.forwarded.back) {
		switch {
		case p.told.Load():
			// its wait goes on at another node, or here after the next start
		case p.tried:
			unknown = append(unknown, p)
		default:
			queued = append(queued, p)
		}
	}
	l.mu.queue, l.mu.forwarded.back = nil, nil
	for _, number := range slices.Sorted(maps.Keys(l.mu.forwarded.parts)) {
		if p := l.mu.forwarded.parts[number]; p != nil && !p.told.Load() {
			unknown = append(unknown, p)
		}
	}
	clear(l.mu.forwarded.parts)
	for _, number := range slices.Sorted(maps.Keys(l.mu.batches)) {
		f := l.mu.batches[number]
		// A peer asks again elsewhere for what it has no answer to.
		unknown = append(unknown, f.forget(func(p *part) bool { return p.from == nil && !p.told.Load() })...)
	}
	clear(l.mu.batches)
	l.mu.Unlock()
	l.node.settle(queued, &logClosed)
	l.node.settle(unknown, &outcomeUnknown)
}

// logClosed answers a request that was never proposed, nor will be.
var logClosed = wire.Result{Code: wire.Unavailable, Message: "the node is shutting down; nothing was done"}

// outcomeUnknown answers a request that was proposed and not heard of again.
var outcomeUnknown = wire.Result{
	Code:    wire.DeadlineExceeded,
	Message: "the request's outcome is not known; repeat it with the same idempotency_key or request id",
}
