package groups

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
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

// read is one reader's wish: done is called once the node is up to date, or with
// why it cannot be.
type read struct {
	since time.Duration
	done  func(err *wire.Error)
}

// askAgain is how long raft is given to answer once: what it was asked while the leader
// changed, it may never answer.
func (r *reader) askAgain() time.Duration {
	return max(2*r.l.node.cfg.ElectionMin, 4*r.l.node.cfg.raftTick())
}

// do calls done on another goroutine when the log is up to date.
func (r *reader) do(done func(err *wire.Error)) {
	q := &read{since: r.l.clock.Mono(), done: done}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, q)
	if !r.busy {
		r.busy = true
		go r.run()
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
			err, late := r.index(batch[0].since)
			if !late {
				for _, q := range batch {
					q.done(err)
				}
				break
			}
			// The others came later, and still have time.
			now, n := r.l.clock.Mono(), 1
			for n < len(batch) && now-batch[n].since >= r.l.timeout {
				n++
			}
			for _, q := range batch[:n] {
				q.done(err)
			}
			batch = batch[n:]
		}
	}
}

// index waits until this node has applied all that was committed when it was
// called. While there is no leader it tries until the oldest read's time is over: then it
// is late.
func (r *reader) index(since time.Duration) (_ *wire.Error, late bool) {
	if engine.Planted == engine.PlantStaleRead {
		return nil, false
	}
	for {
		left := r.l.timeout - (r.l.clock.Mono() - since)
		if left <= 0 {
			return wire.Errorf(wire.Unavailable, "no leader answered within request_timeout_ms; nothing was read"), true
		}
		rs, err := r.l.host.ReadIndex(r.l.shard, max(min(left, r.askAgain()), 2*r.l.node.cfg.raftTick()))
		if err == nil {
			result := <-rs.ResultC()
			rs.Release()
			if result.Completed() {
				return nil, false
			}
		}
		select {
		case <-r.l.stop:
			return wire.Errorf(wire.Unavailable, "the node is shutting down; nothing was read"), false
		case <-time.After(10 * time.Millisecond):
		}
	}
}
