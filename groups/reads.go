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
		err := r.index(batch[0].since)
		for _, q := range batch {
			q.done(err)
		}
	}
}

// index waits until this node has applied all that was committed when it was
// called. While there is no leader it tries until the oldest read's time is over.
func (r *reader) index(since time.Duration) *wire.Error {
	if engine.Planted == engine.PlantStaleRead {
		return nil
	}
	for {
		rs, err := r.l.host.ReadIndex(r.l.shard, r.l.timeout)
		if err == nil {
			result := <-rs.ResultC()
			rs.Release()
			if result.Completed() {
				return nil
			}
		}
		if r.l.clock.Mono()-since >= r.l.timeout {
			return wire.Errorf(wire.Unavailable, "no leader answered within request_timeout_ms; nothing was read")
		}
		select {
		case <-r.l.stop:
			return wire.Errorf(wire.Unavailable, "the node is shutting down; nothing was read")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
