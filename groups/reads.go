package groups

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/dragon"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// reader makes reads of one log linearizable: it asks raft for a read index, and
// when this node has applied up to it, everything that asked before sees at least
// what was acknowledged by then. While one index is asked for, the next reads
// gather.
type reader struct {
	l *shardLog

	mu      sync.Mutex
	waiting []*read
	busy    bool
}

// read is one reader's wish: done is called with a replica that is up to date, or with
// why there is none.
type read struct {
	since time.Duration
	done  func(m *replica.Machine, err *wire.Error)
}

// errReadElsewhere says that this node's replica cannot be read, and the leader's can:
// it was deleted, or has been removed from the log and was not told yet.
var errReadElsewhere = wire.Errorf(wire.Unavailable,
	"the node gave its replica of the log up; nothing was read, try again")

// lookAgain is how often a read that takes long looks whether the leader has changed.
const lookAgain = 10 * time.Millisecond

// patience is how long raft is given to answer when it is asked first, and at most. What
// it was asked while the leader changed it may never answer: a new leader that has not
// committed anything yet drops what it is asked, and does not say so. So it is asked again,
// soon at first; an answer that is only slow comes in time once the patience is.
func (r *reader) patience() (first, most time.Duration) {
	tick := dragon.Tick(r.l.node.cfg.ElectionMin)
	return 2 * tick, max(2*r.l.node.cfg.ElectionMin, 4*tick)
}

// do calls done on another goroutine when the log is up to date. A read's time counts
// from since.
func (r *reader) do(since time.Duration, done func(m *replica.Machine, err *wire.Error)) {
	q := &read{since, done}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, q)
	if !r.busy {
		r.busy = true
		r.l.node.tasks.run(r.run)
	}
}

// run serves reads until none wait.
func (r *reader) run() {
	for {
		r.mu.Lock()
		batch := r.waiting
		r.waiting = nil
		if len(batch) == 0 {
			r.busy = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for len(batch) > 0 {
			oldest := slices.MinFunc(batch, func(a, b *read) int { return cmp.Compare(a.since, b.since) }).since
			m, err, late := r.index(oldest)
			now := r.l.clock.Mono()
			batch = slices.DeleteFunc(batch, func(q *read) bool {
				if late && q.since > oldest && now-q.since < r.l.timeout {
					return false // it came later, and still has time
				}
				q.done(m, err)
				return true
			})
		}
	}
}

// index answers this node's replica once that has applied all that was committed when it
// was called. While there is no leader it tries until the oldest read's time is over: then
// it is late.
func (r *reader) index(since time.Duration) (_ *replica.Machine, _ *wire.Error, late bool) {
	first, most := r.patience()
	patience, last := first, leadership{}
	for began := r.l.clock.Mono(); ; patience = min(2*patience, most) {
		m := r.l.own()
		if m == nil {
			return nil, errReadElsewhere, false
		}
		if engine.Planted == engine.PlantStaleRead {
			return m, nil, false
		}
		now := r.l.clock.Mono()
		left := r.l.timeout - (now - since)
		if left <= 0 {
			return nil, errReadLate, true
		}
		if host, _ := r.l.node.leaderOf(r.l.shard); now-began >= most && host != "" && host != r.l.node.id.HostID {
			return nil, errReadElsewhere, false
		}
		lead := *r.l.lead.Load()
		if lead != last { // what has taken long until now says nothing of it
			patience, last = first, lead
		}
		asked, err := r.l.raft.ReadIndex(max(min(left, most), 2*dragon.Tick(r.l.node.cfg.ElectionMin)))
		switch {
		case errors.Is(err, raft.ErrNoReplica):
			return nil, errReadElsewhere, false // it is being deleted
		case err == nil:
			// What raft says is about the replica that is there now: one that took its
			// place meanwhile is further than m will ever be.
			if r.completed(asked, lead, min(left, patience)) && r.l.local.Load() == m && !m.Installing.Load() {
				return m, nil, false
			}
		}
		if r.l.node.tasks.wait(lookAgain, r.l.stop) == 0 {
			return nil, errReadStopped, false
		}
		r.overdue()
	}
}

// errReadLate answers a read whose time is over.
var errReadLate = wire.Errorf(wire.Unavailable,
	"no leader answered in time (request_timeout_ms); nothing was read, try again")

// errReadStopped answers a read whose node is shut.
var errReadStopped = wire.Errorf(wire.Unavailable, "the node is shutting down; nothing was read")

// overdue answers those that gather and whose time is over. A step of a call that began long
// ago has less time left than the read that is being served.
func (r *reader) overdue() {
	now := r.l.clock.Mono()
	var late []*read
	r.mu.Lock()
	r.waiting = slices.DeleteFunc(r.waiting, func(q *read) bool {
		if now-q.since < r.l.timeout {
			return false
		}
		late = append(late, q)
		return true
	})
	r.mu.Unlock()
	for _, q := range late {
		q.done(nil, errReadLate)
	}
}

// completed says that raft answered, and that this node has applied what it must. It waits
// no longer once the leadership is another one.
func (r *reader) completed(asked raft.Pending, lead leadership, patience time.Duration) bool {
	defer asked.Release() // which does nothing to one that was not answered
	for until := r.l.clock.Mono() + patience; ; {
		r.l.raft.Await(lookAgain, nil, nil, asked)
		if done, ok := asked.Answered(); done {
			return ok
		}
		if *r.l.lead.Load() != lead || r.l.clock.Mono() >= until {
			return false
		}
		r.overdue()
	}
}
