package groups

import (
	"errors"
	"time"
)

// Close drains the node: its leaderships go to other nodes, new requests are refused,
// those under way are finished within the given time, and what is in memory is written
// to disk.
func (n *Node) Close(within time.Duration) error {
	n.handAway(within)
	n.draining.Store(true)
	if within > 0 {
		n.goodbye()
	}
	for waited := time.Duration(0); n.busy() && waited < within; waited += time.Millisecond {
		n.tasks.wait(time.Millisecond)
	}
	return n.shut()
}

// leaving says that the node is on its way out.
func (n *Node) leaving() bool {
	select {
	case <-n.stop:
		return true
	default:
		return false
	}
}

// busy says that a request is not answered yet that is not simply waiting for its
// grant. A drain lets those finish; calls that wait go on after it, here or on
// another node.
func (n *Node) busy() bool {
	if n.stepping() || n.changes.any() || n.moves.count.Load() > 0 {
		return true
	}
	for i := range n.inflight {
		if n.inflight[i].Load() > 0 {
			return true
		}
	}
	if n.reads() {
		return true
	}
	for _, l := range n.logs {
		if !l.idle() {
			return true
		}
	}
	return false
}

// stepping says that a call is carried out in steps.
func (n *Node) stepping() bool { return len(n.slow)+len(n.tended) > 0 }

// reads says that some log is read.
func (n *Node) reads() bool {
	for _, r := range n.readers {
		if r.reading() {
			return true
		}
	}
	return false
}

// endReads waits for what looks at the state still, and so may ask the database: one that is closed ends the process.
// Nothing that it waits for itself comes any more, and it is told so.
func (n *Node) endReads() {
	for waited := time.Duration(0); (n.reads() || n.stepping()) && waited < endReadsWithin; waited += time.Millisecond {
		n.tasks.wait(time.Millisecond)
	}
}

// endReadsWithin bounds it.
const endReadsWithin = 5 * time.Second

// reading says that reads are not answered yet.
func (r *reader) reading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

// shut ends everything that start began.
func (n *Node) shut() error {
	var err error
	n.stopOnce.Do(func() {
		close(n.stop)
		if n.cluster != nil {
			err = n.cluster.close()
		}
		n.backups.close()
		n.loops.wait()
		n.running.Wait()
		for _, l := range n.ordered() {
			if l != nil && l.raft != nil {
				l.close()
			}
		}
		if n.raft != nil {
			n.raft.Close()
		}
		n.endMoves() // what has met a move since
		answerAll(n.changes.all(), &changeHeldUp)
		n.endReads()
		if n.store != nil {
			for _, m := range n.hosted() {
				if m.AppliedIndex() > 0 {
					err = errors.Join(err, m.Checkpoint(true))
				}
			}
			err = errors.Join(err, n.store.Close())
		}
	})
	return err
}
