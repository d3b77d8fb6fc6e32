package groups

import (
	"errors"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// underWay is a proposal that raft has not answered.
type underWay struct {
	raft.Pending
	term    uint64
	number  uint64
	barrier bool
	since   time.Duration // when it was proposed
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
		if l.drive.taking.Pending == nil {
			leaderEpoch := l.propose(replica.AppendLeaderEpoch(l.drive.writer.Buf[:0], l.node.formats.Written(), own,
				l.node.cfg.limits()))
			l.drive.taking = underWay{Pending: leaderEpoch, term: own.Term, since: l.clock.Mono()}
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
		if l.hasGap() {
			if !l.barrierUnderWay() && l.send(own, m, nil, true) {
				continue
			}
			return
		}
		f := l.takeBatch(own)
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
// this term's leader epoch is never will be (inflight.go), and raft says nothing of it before its
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
		if l.drive.taking.Pending == nil {
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

// barrierUnderWay reports whether a barrier is under way.
func (l *shardLog) barrierUnderWay() bool {
	return slices.ContainsFunc(l.drive.under, func(u underWay) bool { return u.barrier && u.term == l.drive.term })
}

// send proposes a batch, or a tick when it is nil; one that is a barrier brings the order back.
func (l *shardLog) send(own replica.LeaderEpoch, m *replica.Machine, f *inFlight, barrier bool) bool {
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
		Format: l.node.formats.Written(), LeaderEpoch: own, Number: l.drive.number, Next: !barrier, Stamp: stamp,
		Wall: l.clock.Wall().UnixMilli(),
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
	l.drive.under = append(l.drive.under, underWay{under, own.Term, head.Number, barrier, mono})
	return true
}

// propose hands an entry to raft. When raft refuses it, run tries again a little
// later.
func (l *shardLog) propose(entry []byte) raft.Pending {
	under, err := l.raft.Propose(entry, l.timeout)
	if err == nil {
		return under
	}
	if !errors.Is(err, raft.ErrBusy) {
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
		done, ok := u.Answered()
		if !done {
			return false
		}
		u.Release()
		if !ok {
			l.drive.retryAt = l.clock.Mono() + retryAfter
			l.Gap(u.term, u.number)
		}
		return true
	})
	if l.drive.taking.Pending != nil {
		if done, _ := l.drive.taking.Answered(); done {
			l.drive.taking.Release()
			l.drive.taking = underWay{}
		}
	}
}
