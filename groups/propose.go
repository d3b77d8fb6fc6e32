package groups

import (
	"errors"
	"slices"

	"github.com/lni/dragonboat/v4"
)

// underWay is a proposal that raft has not answered.
type underWay struct {
	rs     *dragonboat.RequestState
	term   uint64
	number uint64
	mends  bool
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
			l.drive.taking = l.propose(appendOffice(nil, l.node.formats.written(), own))
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
	stamp := m.stamp(own, mono) + l.planted()
	head := batchHead{
		format: l.node.formats.written(), office: own, number: l.drive.number, next: !mends, stamp: stamp, wall: l.clock.Wall().UnixMilli(),
	}
	rs := l.propose(l.drive.writer.entry(&head))
	if rs == nil {
		if f != nil {
			l.giveBack(f)
		}
		l.drive.number--
		return false
	}
	l.drive.lastSent, l.drive.stamped = mono, stamp
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
