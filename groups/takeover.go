package groups

import (
	"errors"
	"fmt"
	"time"
)

// Handing a leadership over. Raft's own way is to refuse proposals until the other
// replica was elected, or for an election timeout if it was not; and it is not when it
// has not applied all that is committed, which right after writes is the rule: two of
// three such transfers fail, and each is an outage of its log of 1.5 s. So the leader
// proposes nothing for a moment, tells the other how far the log goes, and that one
// stands for election once it has applied all of it.

const (
	// holdFor is how long a leader that hands over proposes nothing, at most.
	holdFor = 400 * time.Millisecond
	// holdSpare is how long before that the successor gives up: its votes and what is
	// asked of it are on their way for a while.
	holdSpare = 50 * time.Millisecond
	// standEvery is how often it stands for election.
	standEvery = 40 * time.Millisecond
	// handPoll is how often it is looked whether something has happened.
	handPoll = time.Millisecond
	// transferWithin is how long all of it may take.
	transferWithin = 3 * time.Second
)

// orderedTakeover asks for an election.
type orderedTakeover struct {
	Log     uint64
	Replica uint64
	Index   uint64        // of the last entry
	Term    uint64        // of the leader that asks
	Within  time.Duration // how long it proposes nothing
	Short   bool          // also if your disk is nearly full: there is nobody else
}

var errLedOn = errors.New("nothing was changed")

// handOver gives the leadership of a log to another replica.
func (n *Node) handOver(shard, replica uint64) error {
	l := n.logs[shard]
	host := n.book.HostOf(shard, replica)
	if host == "" || n.cluster == nil {
		return fmt.Errorf("replica %d of log %d is on no known node: %w", replica, shard, errLedOn)
	}
	m := l.local.Load()
	if m == nil || !l.leads() {
		return fmt.Errorf("this node does not lead log %d: %w", shard, errLedOn)
	}
	term, until := l.mine(), l.clock.Mono()+holdFor
	l.drive.Lock()
	busy := l.drive.hold != 0
	if !busy {
		l.drive.hold = until
	}
	l.drive.Unlock()
	if busy {
		return fmt.Errorf("log %d is being handed over already: %w", shard, errLedOn)
	}
	defer func() {
		l.drive.Lock()
		if l.drive.hold == until {
			l.drive.hold = 0
		}
		l.drive.Unlock()
		l.kick()
	}()
	if !n.poll(holdFor/2, func() bool {
		l.drive.Lock()
		defer l.drive.Unlock()
		return len(l.drive.under) == 0
	}) {
		return fmt.Errorf("what was proposed to log %d is not decided yet: %w", shard, errLedOn)
	}
	order := orderedTakeover{
		Log: shard, Replica: replica, Index: m.AppliedIndex(), Term: term, Within: until - holdSpare - l.clock.Mono(),
		Short: n.shortAt(host),
	}
	return n.cluster.askText(host, askTakeover, order, nil, transferWithin)
}

// takeOver makes this node's replica the leader of its log, because the node that leads
// it asks for that.
func (n *Node) takeOver(from string, o orderedTakeover) error {
	l := n.logs[o.Log]
	if l == nil || n.draining.Load() {
		return errors.New("draining, or there is no such log")
	}
	m := l.local.Load()
	if m == nil || m.Replica != o.Replica || !m.Voting.Load() {
		return fmt.Errorf("replica %d of log %d is no voter here", o.Replica, o.Log)
	}
	if !o.Short && n.short() {
		return fmt.Errorf("replica %d of log %d is on a disk that is nearly full", o.Replica, o.Log)
	}
	until := time.Now().Add(min(o.Within, holdFor))
	leads := func() bool { return l.isOwn(l.lead.Load().leader) }
	asked := func() bool {
		lead := l.lead.Load()
		return lead.term == o.Term && n.book.HostOf(o.Log, lead.leader) == from
	}
	if !asked() {
		lead := l.lead.Load()
		return fmt.Errorf("log %d is led by replica %d on %q in term %d, as is known here, and not by %q in term %d",
			o.Log, lead.leader, n.book.HostOf(o.Log, lead.leader), lead.term, from, o.Term)
	}
	if !n.poll(time.Until(until), func() bool { return m.AppliedIndex() >= o.Index }) {
		return fmt.Errorf("replica %d of log %d is %d entries behind", o.Replica, o.Log,
			o.Index-min(o.Index, m.AppliedIndex()))
	}
	for !n.leaving() && time.Now().Before(until) && (m.AppliedIndex() == o.Index || leads()) {
		n.raft.Campaign(o.Log, o.Replica)
		if n.poll(standEvery, leads) {
			return nil
		}
	}
	return fmt.Errorf("replica %d of log %d was not elected while its leader held still", o.Replica, o.Log)
}

// poll waits until something is so, and says whether it came to be in time.
func (n *Node) poll(within time.Duration, is func() bool) bool {
	for until := time.Now().Add(within); !is(); {
		select {
		case <-n.stop:
			return false
		case <-time.After(handPoll):
		}
		if time.Now().After(until) {
			return is()
		}
	}
	return true
}
