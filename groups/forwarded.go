package groups

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// forwardedParts is what a log's queue has sent to another node and has no answer to.
type forwardedParts struct {
	conn    peerConn         // nil while nothing is
	term    uint64           // of the leader it was sent to
	lane    uint64           // grows with each leader that something is sent to
	parts   map[uint64]*part // by number; nil while its caller is being told that it is queued
	number  uint64           // given last
	since   time.Duration    // when the first of the lane was sent
	back    []*part          // refused, to be sent again
	refused bool             // nothing more is sent on this lane
	gone    bool             // the connection is
	newer   time.Duration    // since when answers are overdue, 0: they are not
	retryAt time.Duration
}

// forward sends what is queued to the node that leads the log. It is called with drive
// held.
func (l *shardLog) forward() {
	host, term := l.node.leaderOf(l.shard)
	if host == l.node.id.HostID {
		host = ""
	}
	l.mu.Lock()
	var over, unsure []*part
	ready := false
	if host != "" {
		ready, unsure = l.nothingInFlight(term)
	} else {
		l.mu.overdue = 0
	}
	if l.mu.suspect {
		over = l.weed()
	}
	wanted := ready && len(l.mu.queue) > 0
	if host != "" && !wanted && l.mu.forwarded.conn != nil {
		l.settled(l.mu.forwarded.conn, term) // so that what is overdue is noticed
	}
	l.mu.Unlock()
	l.node.bounce(over)
	l.node.unsure(unsure)
	if !wanted {
		return
	}
	to := l.node.peer(host)
	for l.sendForwarded(to, term) {
	}
}

// asksAnew has what waits to be sent again sent now, as there is news of a leader.
func (l *shardLog) asksAnew() {
	l.mu.Lock()
	l.mu.forwarded.retryAt = 0
	l.mu.Unlock()
}

// sendForwarded sends a frame's worth of the queue, and says whether there may be more.
func (l *shardLog) sendForwarded(to peerConn, term uint64) bool {
	now := l.clock.Mono()
	l.mu.Lock()
	a := &l.mu.forwarded
	switch {
	case now < a.retryAt || len(l.mu.queue) == 0 || l.mu.closed:
		l.mu.Unlock()
		return false
	case to == nil:
		if a.conn != nil {
			l.settled(nil, term)
		}
		a.retryAt = now + noWayAfter
		l.mu.Unlock()
		return false
	case !l.settled(to, term):
		l.mu.Unlock()
		return false
	}
	first := a.number + 1
	parts, gone := l.unqueue(true)
	for _, p := range parts {
		a.number++
		p.number = a.number
		a.parts[p.number] = p
	}
	if len(parts) > 0 {
		if a.conn == nil {
			a.lane++
			a.since = now
		}
		a.conn, a.term = to, term
	}
	lane := a.lane
	l.mu.Unlock()
	l.node.settle(gone, &callerGone)
	if len(parts) == 0 {
		return false
	}

	w := &l.drive.writer
	b := append(w.Buf[:0], frameCommands)
	for _, v := range [...]uint64{l.node.id.Starts, l.node.forwards.seqOf(to), l.shard, term, lane, first} {
		b = binary.AppendUvarint(b, v)
	}
	w.Buf = w.AppendTo(b)
	if !to.Send(w.Buf) {
		l.node.forwards.forget(to)
		l.lost(to)
		return false
	}
	return true
}

// settled says that nothing is on its way to anybody but the leader of the given term on
// the given connection (nil for this node itself). What came back is then in the queue
// again. It is called under the lock.
func (l *shardLog) settled(to peerConn, term uint64) bool {
	a := &l.mu.forwarded
	switch {
	case a.conn == nil:
		return true
	case len(a.parts) == 0:
		l.comeBack()
		return true
	case a.conn == to && a.term == term && !a.refused:
		return true
	case a.newer == 0:
		a.newer = l.clock.Mono()
	}
	return false
}

// comeBack ends a lane on which nothing is under way any more: what is to be sent again
// is queued in its order, before all others. It is called under the lock.
func (l *shardLog) comeBack() {
	a := &l.mu.forwarded
	slices.SortFunc(a.back, func(x, y *part) int { return cmp.Compare(x.number, y.number) })
	if len(a.back) > 0 {
		l.inFront(l.withEndings(a.back))
	}
	a.back, a.conn, a.refused, a.gone, a.newer = nil, nil, false, false, 0
}

// lost takes back what was forwarded on a connection that is gone.
func (l *shardLog) lost(c peerConn) {
	l.mu.Lock()
	a := &l.mu.forwarded
	mine := a.conn == c
	if mine {
		for number, p := range a.parts {
			if p != nil {
				p.tried = true
				a.back = append(a.back, p)
				delete(a.parts, number)
			}
		}
		a.refused, a.gone = true, true
		if len(a.parts) == 0 {
			l.comeBack()
		}
	}
	l.mu.Unlock()
	if mine {
		l.kick()
	}
}

// forwardedDue is when something has to be done about what is forwarded.
func (l *shardLog) forwardedDue() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.forwarded
	if due, ok := l.overdueAt(); ok {
		return due, true
	}
	switch {
	case a.newer != 0:
		return a.newer + answerWithin, true
	case a.retryAt != 0 && len(l.mu.queue) > 0:
		return a.retryAt, true
	}
	return 0, false
}

// unblock closes the connection to a node that does not answer though it leads no more.
func (l *shardLog) unblock() {
	l.mu.Lock()
	a := &l.mu.forwarded
	now := l.clock.Mono()
	if a.retryAt != 0 && now >= a.retryAt {
		a.retryAt = 0
	}
	var tardy peerConn
	if a.newer != 0 && now-a.newer >= answerWithin {
		tardy, a.newer = a.conn, 0
	}
	l.mu.Unlock()
	if tardy != nil {
		l.log.Info("asking a new leader again what the last one did not answer")
		tardy.Close(errTardy)
		l.node.peerGone(tardy)
	}
}

// forwardedTooLong takes out what has been forwarded for longer than its caller waits. It is called under
// the lock.
func (l *shardLog) forwardedTooLong(isLate func(*part) bool) (late []*part) {
	a := &l.mu.forwarded
	for _, number := range slices.Sorted(maps.Keys(a.parts)) {
		if p := a.parts[number]; p != nil && isLate(p) {
			late = append(late, p)
			delete(a.parts, number)
		}
	}
	if len(a.parts) == 0 && a.refused {
		l.comeBack()
	}
	return late
}
