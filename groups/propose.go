package groups

import (
	"errors"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
)

// underWay is a proposal that raft has not answered.
type underWay struct {
	pending
	term   uint64
	number uint64
	mends  bool
	since  time.Duration // when it was proposed
}

// work proposes what there is to propose, or sends it to who may.
func (l *shardLog) work() {
	lead := l.lead.Load()
	m := l.local.Load()
	if m == nil || lead.leader != m.Replica || lead.term == 0 {
		l.forward()
		return
	}
	if now := l.clock.Mono(); now < l.drive.retryAt || now < l.drive.hold {
		return
	}
	l.drive.retryAt, l.drive.hold = 0, 0
	l.outgrow(lead.term)
	own := replica.LeaderEpoch{Term: lead.term, Node: m.Replica, Incarnation: l.process}
	if l.held.Load() != lead.term {
		if l.drive.taking.pending == nil {
			leaderEpoch := l.propose(replica.AppendLeaderEpoch(l.drive.writer.Buf[:0], l.node.formats.Written(), own, l.node.cfg.limits()))
			l.drive.taking = underWay{pending: leaderEpoch, term: own.Term, since: l.clock.Mono()}
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
			if !ok || l.clock.Mono() < due || l.heldUp(own) {
				return
			}
		}
		if !l.send(own, m, f, false) {
			return
		}
	}
}

// outgrow lets go of what was proposed in an earlier term. What has not been applied when
// this term's leader epoch is never will be (flights.go), and raft says nothing of it before its
// time is over: until then it would hold the leader epoch up, and fill the window.
func (l *shardLog) outgrow(term uint64) {
	l.drive.under = slices.DeleteFunc(l.drive.under, func(u underWay) bool { return u.term != term })
	if l.drive.taking.term != term {
		l.drive.taking = underWay{}
	}
}

// stalled is for how long a write would not have passed though this node leads the log: its
// leader epoch of this term is not in force, or what it proposed is not applied within
// healthWithin. 0 when writes pass, or another node leads.
func (l *shardLog) stalled() time.Duration {
	if l.mine() == 0 {
		return 0
	}
	l.drive.Lock()
	defer l.drive.Unlock()
	now := l.clock.Mono()
	if !l.leads() {
		if l.drive.taking.pending == nil {
			return time.Millisecond
		}
		return max(now-l.drive.taking.since, time.Millisecond)
	}
	longest := time.Duration(0)
	for _, u := range l.drive.under {
		longest = max(longest, now-u.since)
	}
	if longest < healthWithin {
		return 0
	}
	return longest
}

// mending says that a batch is under way that mends the order.
func (l *shardLog) mending() bool {
	return slices.ContainsFunc(l.drive.under, func(u underWay) bool { return u.mends && u.term == l.drive.term })
}

// send proposes a flight, or a tick when it is nil, and one that mends the order.
func (l *shardLog) send(own replica.LeaderEpoch, m *replica.Machine, f *flight, mends bool) bool {
	if f == nil {
		l.drive.writer.Reset()
	}
	mono := l.clock.Mono()
	l.drive.number++
	stamp := m.Stamp(own, mono) + l.planted()
	if f != nil && f.untimed || f == nil && l.heldUp(own) {
		stamp = replica.Still
	}
	head := replica.BatchHead{
		Format: l.node.formats.Written(), LeaderEpoch: own, Number: l.drive.number, Next: !mends, Stamp: stamp, Wall: l.clock.Wall().UnixMilli(),
	}
	under := l.propose(l.drive.writer.Entry(&head))
	if under == nil {
		if f != nil {
			l.giveBack(f)
		}
		l.drive.number--
		return false
	}
	l.drive.lastSent, l.drive.stamped = mono, stamp
	l.drive.under = append(l.drive.under, underWay{under, own.Term, head.Number, mends, mono})
	return true
}

// propose hands an entry to raft. When raft refuses it, run tries again a little
// later.
func (l *shardLog) propose(entry []byte) pending {
	under, err := l.raft.propose(entry, l.timeout)
	if err == nil {
		return under
	}
	if !errors.Is(err, errBusy) {
		l.log.Debug("proposal refused", "error", err)
	}
	l.drive.retryAt = l.clock.Mono() + retryAfter
	return nil
}

// hear takes note of what raft says of what is under way. Commands that were applied
// have been answered by then (replica/machine.go); of all others nothing is known yet.
func (l *shardLog) hear() {
	l.drive.Lock()
	defer l.drive.Unlock()
	l.drive.under = slices.DeleteFunc(l.drive.under, func(u underWay) bool {
		done, ok := u.answered()
		if !done {
			return false
		}
		u.release()
		if !ok {
			l.drive.retryAt = l.clock.Mono() + retryAfter
			l.Gap(u.term, u.number)
		}
		return true
	})
	if l.drive.taking.pending != nil {
		if done, _ := l.drive.taking.answered(); done {
			l.drive.taking.release()
			l.drive.taking = underWay{}
		}
	}
}
