package groups

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"

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

// leadership is what raft last said of a log.
type leadership struct {
	term   uint64
	leader uint64 // replica id, 0 for none
}

// shardLog is one replicated log as the node that leads it drives it: a queue of
// commands, which are batched, stamped and proposed by one goroutine (run), or at
// once by who queued one while nothing was under way: that saves a change of
// goroutine, which a lone request feels.
//
// Commands of a session keep their order: they are queued in it, batched in it,
// and put back in front when a batch is known not to have been applied (flights.go).
//
// While another node leads, the queue goes there (forward.go); and what other nodes
// forward to this one stands in the same queue (inbound.go).
type shardLog struct {
	shard   uint64
	node    *Node
	process uint64 // incarnation of this process
	host    *dragonboat.NodeHost
	session *client.Session
	// local is this node's replica, nil while it has none.
	local   atomic.Pointer[machine]
	clock   Clock
	log     *slog.Logger
	timeout time.Duration // how long a request may take

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	lead atomic.Pointer[leadership]
	held atomic.Uint64 // term of the office this process holds, 0 for none

	mu struct {
		sync.Mutex
		queue   []*part
		flights map[uint64]*flight // by number
		order   order
		overdue time.Duration // since when flights are waited for though another node leads, 0: they are not
		looked  time.Duration // when the queue was last looked through for those that wait too long
		away    away
		suspect bool // the queue may have parts of peers in it that must not be proposed
		closed  bool
	}
	followed followed    // of run alone
	unfollow atomic.Bool // what run followed may not be all: it is to look again

	// drive is held while something is proposed, and before mu. Raft's answers are
	// taken by run alone.
	drive struct {
		sync.Mutex
		number   uint64 // of the last batch
		term     uint64 // of the office it was numbered in
		writer   batchWriter
		under    []underWay
		taking   *dragonboat.RequestState // an office entry
		lastSent time.Duration
		retryAt  time.Duration
		hold     time.Duration // nothing is proposed before: the leadership is being handed over
	}
}

// underWay is a proposal that raft has not answered.
type underWay struct {
	rs     *dragonboat.RequestState
	term   uint64
	number uint64
	mends  bool
}

func newShardLog(n *Node, shard uint64) *shardLog {
	l := &shardLog{
		shard: shard, node: n, process: n.process, clock: n.clock,
		log: n.log.With("log", shard), timeout: n.cfg.RequestTimeout,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	l.mu.flights = make(map[uint64]*flight)
	l.mu.away.parts = make(map[uint64]*part)
	l.lead.Store(&leadership{})
	return l
}

// push queues a command, which goes on its way with the next start. It never
// blocks; the caller has checked the limits.
func (l *shardLog) push(p *part) {
	if p.log == nil { // else others may look at it already
		p.log = l
	}
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		l.node.settle([]*part{p}, &wire.Result{Code: wire.Unavailable, Message: "the node is shutting down; nothing was done"})
		return
	}
	l.mu.queue = append(l.mu.queue, p)
	if p.from != nil && l.mine() != p.term {
		l.mu.suspect = true
	}
	l.mu.Unlock()
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

// leaderChanged is told by raft who leads the log now.
func (l *shardLog) leaderChanged(term, leader uint64) {
	l.lead.Store(&leadership{term: term, leader: leader})
	if !l.isOwn(leader) {
		l.held.Store(0)
	}
	l.doubt()
}

// mine is the term in which raft says that this node leads the log, 0 while it does
// not.
func (l *shardLog) mine() uint64 {
	if lead := l.lead.Load(); l.isOwn(lead.leader) {
		return lead.term
	}
	return 0
}

// leads says that this process may propose batches.
func (l *shardLog) leads() bool {
	lead := l.lead.Load()
	return l.isOwn(lead.leader) && l.held.Load() == lead.term && lead.term != 0
}

// isOwn says that a replica of the log is this node's.
func (l *shardLog) isOwn(replica uint64) bool {
	m := l.local.Load()
	return m != nil && m.replica == replica
}

// run drives the log until stop is closed.
func (l *shardLog) run() {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.expire()
		l.follow()
		l.unblock()
		l.drive.Lock()
		l.work()
		timer.Reset(l.pause())
		var under [window]underWay
		var results [window]chan dragonboat.RequestResult
		var office chan dragonboat.RequestResult
		for i, u := range l.drive.under {
			under[i], results[i] = u, u.rs.ResultC()
		}
		if l.drive.taking != nil {
			office = l.drive.taking.ResultC()
		}
		l.drive.Unlock()
		select {
		case <-l.stop:
			return
		case <-l.wake:
		case <-timer.C:
		case r := <-results[0]:
			l.landed(under[0], r)
		case r := <-results[1]:
			l.landed(under[1], r)
		case <-office:
			l.drive.Lock()
			l.drive.taking.Release()
			l.drive.taking = nil
			l.drive.Unlock()
		}
	}
}

// pause is how long run has nothing to do.
func (l *shardLog) pause() time.Duration {
	d := l.timeout / 4
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
	if due, ok := l.awayDue(); ok {
		d = min(d, max(due-l.clock.Mono(), 0))
	}
	return max(d, 100*time.Microsecond)
}

// tickDue is when the log needs an entry though nobody asks for one: at the next
// deadline, and at the latest tickEvery after the last entry, so that a successor
// starts from a fresh stamp.
func (l *shardLog) tickDue() (time.Duration, bool) {
	m := l.local.Load()
	if m == nil || !l.leads() || len(l.drive.under) >= window {
		return 0, false
	}
	at, ok := m.nextDeadline()
	if !ok {
		return 0, false
	}
	return min(at, l.drive.lastSent+tickEvery), true
}

// work proposes what there is to propose, or sends it to who may.
func (l *shardLog) work() {
	lead := l.lead.Load()
	m := l.local.Load()
	if m == nil || lead.leader != m.replica || lead.term == 0 {
		l.forward()
		return
	}
	if now := l.clock.Mono(); now < l.drive.retryAt || now < l.drive.hold {
		return
	}
	l.drive.retryAt, l.drive.hold = 0, 0
	own := office{lead.term, m.replica, l.process}
	if l.held.Load() != lead.term {
		if l.drive.taking == nil {
			l.drive.taking = l.propose(appendOffice(nil, own))
		}
		return
	}
	if l.drive.term != lead.term {
		l.drive.term, l.drive.number = lead.term, 0
		l.mu.Lock()
		l.mu.order = order{term: lead.term}
		l.mu.Unlock()
	}
	for len(l.drive.under) < window {
		if l.torn() {
			if !l.mending() && l.send(own, m, nil, true) {
				continue
			}
			return
		}
		f := l.take(own)
		if f == nil {
			due, ok := l.tickDue()
			if !ok || l.clock.Mono() < due {
				return
			}
		}
		if !l.send(own, m, f, false) {
			return
		}
	}
}

// mending says that a batch is under way that mends the order.
func (l *shardLog) mending() bool {
	return slices.ContainsFunc(l.drive.under, func(u underWay) bool { return u.mends && u.term == l.drive.term })
}

// send proposes a flight, or a tick when it is nil, and one that mends the order.
func (l *shardLog) send(own office, m *machine, f *flight, mends bool) bool {
	if f == nil {
		l.drive.writer.reset()
	}
	mono := l.clock.Mono()
	l.drive.number++
	head := batchHead{
		office: own, number: l.drive.number, next: !mends, stamp: m.stamp(mono) + l.planted(), wall: l.clock.Wall().UnixMilli(),
	}
	rs := l.propose(l.drive.writer.entry(&head))
	if rs == nil {
		if f != nil {
			l.giveBack(f)
		}
		l.drive.number--
		return false
	}
	l.drive.lastSent = mono
	l.drive.under = append(l.drive.under, underWay{rs, own.term, head.number, mends})
	return true
}

// propose hands an entry to raft. When raft refuses it, run tries again a little
// later.
func (l *shardLog) propose(entry []byte) *dragonboat.RequestState {
	rs, err := l.host.Propose(l.session, entry, l.timeout)
	if err == nil {
		return rs
	}
	if !errors.Is(err, dragonboat.ErrSystemBusy) && !errors.Is(err, dragonboat.ErrShardNotReady) {
		l.log.Debug("proposal refused", "error", err)
	}
	l.drive.retryAt = l.clock.Mono() + retryAfter
	return nil
}

// landed takes note of what raft says of a proposal under way. Commands that were
// applied have been answered by then (machine.go); of all others nothing is known yet.
func (l *shardLog) landed(u underWay, r dragonboat.RequestResult) {
	l.drive.Lock()
	defer l.drive.Unlock()
	l.drive.under = slices.DeleteFunc(l.drive.under, func(x underWay) bool { return x.rs == u.rs })
	u.rs.Release()
	if !r.Completed() {
		l.drive.retryAt = l.clock.Mono() + retryAfter
		l.tear(u.term, u.number)
	}
}

// close refuses what is queued and stops run.
func (l *shardLog) close() {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	l.mu.closed = true
	var queued, unknown []*part
	for _, p := range l.mu.queue {
		switch {
		case p.told:
			// its wait goes on at another node, or here after the next start
		case p.tried:
			unknown = append(unknown, p)
		default:
			queued = append(queued, p)
		}
	}
	l.mu.queue = nil
	for _, p := range l.mu.away.parts {
		if p != nil && !p.told {
			unknown = append(unknown, p)
		}
	}
	clear(l.mu.away.parts)
	for _, f := range l.mu.flights {
		// A peer asks again elsewhere for what it has no answer to.
		unknown = append(unknown, f.forget(func(p *part) bool { return p.from == nil && !p.told })...)
	}
	clear(l.mu.flights)
	l.mu.Unlock()
	l.node.settle(queued, &wire.Result{Code: wire.Unavailable, Message: "the node is shutting down; nothing was done"})
	l.node.settle(unknown, &outcomeUnknown)
}

// outcomeUnknown answers a request that was proposed and not heard of again.
var outcomeUnknown = wire.Result{
	Code:    wire.DeadlineExceeded,
	Message: "the request's outcome is not known; repeat it with the same idempotency_key or request id",
}

// idle says that nothing is queued or under way but calls that wait.
func (l *shardLog) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.mu.queue {
		if !p.told {
			return false
		}
	}
	for _, p := range l.mu.away.parts {
		if p != nil && !p.told {
			return false
		}
	}
	return len(l.mu.flights) == 0
}

// doubt has the queue looked through for what must not be proposed any more.
func (l *shardLog) doubt() {
	l.mu.Lock()
	l.mu.suspect = true
	l.mu.Unlock()
	l.kick()
}
