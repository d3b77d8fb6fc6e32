package groups

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// Whoever leads a log brings its replicas to where they belong, one change at a time:
// what comes next is decided by package place, and done here.

const (
	// unsettledEvery is how often a node looks at logs that are not where they belong.
	unsettledEvery = time.Second
	// settledEvery is the same when all of them are.
	settledEvery = 15 * time.Second
	// roundGap is the least time between two rounds.
	roundGap = 100 * time.Millisecond
	// askWithin is how long an answer of another node is waited for.
	askWithin = 2 * time.Second
	// askAtOnce is how many logs raft is asked about at once.
	askAtOnce = 16
	// changeWithin is how long a change of members may take. One that takes longer may
	// still happen; the next round sees it.
	changeWithin = 5 * time.Second
)

// placing is a node's rounds.
type placing struct {
	n       *Node
	members *place.Members
	sched   *place.Scheduler
	layout  place.Layout
	placed  []string
	done    chan uint64 // logs whose step has ended
	heads   map[learnerAt]headway
	releads map[uint64]bool             // logs that were led anew since they had one voter, or were led by another node
	patient map[replicaAt]time.Duration // how long the next learner of a log on a node is waited for
}

// learnerAt is a replica without a vote of a log.
type learnerAt struct{ shard, replica uint64 }

// headway is how far a learner is, and since when.
type headway struct {
	applied uint64
	since   time.Duration
}

// maxPatience bounds how long a learner is waited for. It grows twofold with each one that
// was made anew on the same node, since the time may have been too short: of one that is
// installing a large snapshot nothing is seen.
const maxPatience = time.Hour

// watch marks the learners of a log that are stuck: their node is seen, they are to get a
// vote, and they have not come any further for twice the eviction window at least.
func (p *placing) watch(now time.Duration, l *place.Log, nodes map[string]place.Node, heads map[learnerAt]headway) {
	for i := range l.Replicas {
		r := &l.Replicas[i]
		at, where := learnerAt{l.ID, r.ID}, replicaAt{r.Disk, l.ID}
		if r.Voting {
			delete(p.patient, where)
			continue
		}
		h, known := p.heads[at]
		if !known || r.Applied > h.applied || r.Applied >= l.Applied || !nodes[r.Node].Alive {
			h = headway{r.Applied, now}
		}
		heads[at] = h
		patience := p.patient[where]
		if patience == 0 {
			patience = 2 * p.n.cfg.EvictionWindow
		}
		if now-h.since < patience || r.Applied+place.MaxLag >= l.Applied && r.Applied > 0 {
			continue
		}
		r.Stuck = true
		if p.patient == nil {
			p.patient = make(map[replicaAt]time.Duration)
		}
		p.patient[where] = min(2*patience, maxPatience)
		heads[at] = headway{r.Applied, now} // if it cannot be removed now, it is tried again then
		p.n.log.Warn("a replica makes no headway, making it anew", "log", l.ID, "replica", r.ID, "node", r.Node,
			"applied", r.Applied, "leader applied", l.Applied, "for", patience)
	}
}

// releadAfter is how long a learner of a log with one voter comes no further before its leader leads it anew.
const releadAfter = 3 * time.Second

// waitsInVain reports whether a log is to be led anew, as its leader may wait for learners in vain (Node.relead): it
// has one voter, and a learner that runs comes no further. It says so once, until the log has had several voters or
// another leader: no read can come to be without an answer while there is one voter, so a second time would change
// nothing.
func (p *placing) waitsInVain(now time.Duration, l *place.Log, heads map[learnerAt]headway,
	applied map[replicaAt]uint64) bool {
	voters, waits := 0, false
	for i := range l.Replicas {
		r := &l.Replicas[i]
		if r.Voting {
			voters++
			continue
		}
		h := heads[learnerAt{l.ID, r.ID}]
		_, runs := applied[replicaAt{r.Disk, l.ID}]
		waits = waits || runs && now-h.since >= releadAfter && r.Applied < l.Applied
	}
	if voters != 1 {
		delete(p.releads, l.ID)
		return false
	}
	if !waits || p.releads[l.ID] {
		return false
	}
	if p.releads == nil {
		p.releads = make(map[uint64]bool)
	}
	p.releads[l.ID] = true
	return true
}

// relead gives up a log that this node leads in a term, as its one voter, and leads it anew. raft does not stand for
// election while it has an entry to apply that changes members, and takes each entry that is under way for one; nobody
// else can be elected. So it is told to stand until it leads, where it would wait for its election timeout. Members may
// have changed since the round looked at them: with another voter there is nothing to be done.
func (n *Node) relead(l *shardLog, replica, term uint64) {
	if l.mine() != term || slices.ContainsFunc(n.raft.Replicas(), func(r raft.ReplicaInfo) bool {
		return r.Shard == l.shard && len(r.Voters) != 1
	}) {
		return
	}
	n.raft.StepDown(l.shard, replica, term)
	again := time.NewTicker(standsEvery)
	defer again.Stop()
	for until := n.clock.Mono() + n.cfg.ElectionMin; l.mine() <= term && n.clock.Mono() < until; {
		if host, later := n.leaderOf(l.shard); later > term && host != "" && host != n.id.HostID {
			return
		}
		n.raft.Campaign(l.shard, replica)
		select {
		case <-again.C:
		case <-n.stop:
			return
		}
	}
}

// standsEvery is how often a log that is led anew is told to stand for election.
const standsEvery = 5 * time.Millisecond

// plans is what the last round thought of the logs that this node leads, for people.
type plans struct {
	mu     sync.Mutex
	by     map[uint64]planned
	layout place.Layout // where the voters of all logs belong
	view   place.View
}

// planned is one log as the last round saw it.
type planned struct {
	log    place.Log
	step   place.Step
	since  time.Duration // when the step became this one
	voters []string      // where they belong, the leader first
}

// placeLoop runs rounds until the node stops.
func (n *Node) placeLoop() {
	windows := place.Windows{Stability: n.cfg.StabilityWindow, Eviction: n.cfg.EvictionWindow}
	now := n.clock.Mono()
	p := &placing{
		n: n, members: place.NewMembers(now, place.Sighting{Node: n.id.NodeID, Disk: n.id.HostID}, windows),
		sched: place.NewScheduler(now, place.Pace{Concurrent: n.cfg.MaxReconciles, Balance: n.cfg.LeaderBalance,
			Quiet: windows.Quiet()}),
		done: make(chan uint64, 1+len(n.logs)),
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-n.stop:
			return
		case shard := <-p.done:
			p.sched.Done(n.clock.Mono(), shard)
		case <-n.around:
		case <-timer.C:
		}
		timer.Reset(max(p.round(), roundGap))
		select {
		case <-n.stop:
			return
		case <-time.After(roundGap): // what comes in a burst is looked at once
		}
	}
}

// round looks at everything once and starts what is to be done. It answers when to look
// again though nothing happens.
func (p *placing) round() time.Duration {
	n := p.n
	now := n.clock.Mono()
	led := n.ledLogs()
	memberships := n.memberships(led)
	var hold []string
	for _, ms := range memberships {
		for _, host := range ms.Nodes {
			hold = append(hold, n.nameOf(host)) // also of who is not known: it is waited for as long
		}
	}
	p.members.Adopt(now, hold)
	wanted := n.wantedOf(marksEvery)
	n.cluster.forget(wanted)
	marks := drains(wanted)
	view := p.members.Observe(now, n.seen(), marks)
	if p.layout == nil || !slices.Equal(p.placed, view.Placed) {
		p.layout, p.placed = place.Place(n.id.Logs(), view.Placed, n.id.Replication), view.Placed
		n.log.Info("laying logs out", "nodes", view.Placed)
	}
	n.plans.mu.Lock()
	n.plans.layout = p.layout
	n.plans.mu.Unlock()
	applied := n.askApplied(memberships)
	var steps []place.Step
	settled := true
	found := n.plans.of(led) // as the last round saw them: a busy node may not say in time who its members are
	heads := make(map[learnerAt]headway)
	defer func() { p.heads = heads }()
	maps.DeleteFunc(p.releads, func(shard uint64, _ bool) bool {
		host, _ := n.leaderOf(shard)
		return host != "" && host != n.id.HostID
	})
	for _, m := range led {
		ms := memberships[m.Shard]
		if ms == nil {
			settled = false
			continue
		}
		l := n.describeLog(m, ms, applied)
		p.watch(now, &l, view.Nodes, heads)
		if term := n.logs[m.Shard].mine(); term != 0 && p.waitsInVain(now, &l, heads, applied) {
			n.log.Info("leading a log anew, as its learners come no further", "log", m.Shard, "term", term)
			n.running.Go(func() { n.relead(n.logs[m.Shard], m.Replica, term) })
		}
		step := place.Plan(&l, p.layout[m.Shard], view.Nodes)
		settled = settled && step.Kind == place.Settled
		steps = append(steps, step)
		found[m.Shard] = planned{log: l, step: step, voters: p.layout[m.Shard]}
	}
	n.plans.take(found, view, now)
	if !n.Growable() {
		return unsettledEvery
	}
	start, again := p.sched.Next(now, steps)
	for _, s := range start {
		n.log.Info("changing a log", "log", s.Log, "step", s.Kind.String(), "replica", s.Replica, "node", s.Node,
			"why", s.Why)
		n.running.Go(func() {
			switch err := n.carry(s); {
			case errors.Is(err, errLedOn): // the leadership moved meanwhile, or will be offered again
				n.log.Debug("a leadership was not handed over", "log", s.Log, "node", s.Node, "error", err)
			case err != nil:
				n.log.Warn("a change of a log did not go through, planning it anew", "log", s.Log, "step",
					s.Kind.String(), "node", s.Node, "error", err)
			}
			select {
			case p.done <- s.Log:
			case <-n.stop:
			}
		})
	}
	next := settledEvery
	if !settled {
		next = unsettledEvery
	}
	return min(next, again-now, view.Next-now)
}

// ledLogs lists the logs that this node leads, in order.
func (n *Node) ledLogs() (out []*replica.Machine) {
	for _, m := range n.hosted() {
		if n.logs[m.Shard].leads() {
			out = append(out, m)
		}
	}
	return out
}

// seen lists the nodes that are alive and part of the cluster.
func (n *Node) seen() (out []place.Sighting) {
	for _, s := range n.cluster.sightings() {
		if !s.Alive || s.State < gossip.Member || s.State == gossip.Leaving {
			continue
		}
		seen := place.Sighting{Node: s.NodeID, Disk: s.HostID, Short: s.Shortage.Is()}
		if s.State == gossip.Draining {
			seen.Drain = place.DrainLeads
		}
		out = append(out, seen)
	}
	return out
}

// membership asks raft who is in a log, linearizably.
func (n *Node) membership(shard uint64) (*raft.Membership, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	return n.logs[shard].raft.Members(ctx)
}

// memberships is membership of several logs, each waited for beside the others: one that
// has lost its majority must not hold up what is done about the rest. What cannot be had
// is left out: this node does not lead it any more, or has no majority.
func (n *Node) memberships(logs []*replica.Machine) map[uint64]*raft.Membership {
	out := make(map[uint64]*raft.Membership, len(logs))
	var mu sync.Mutex
	var all sync.WaitGroup
	room := make(chan struct{}, askAtOnce)
	for _, m := range logs {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if ms, err := n.membership(m.Shard); err == nil {
				mu.Lock()
				defer mu.Unlock()
				out[m.Shard] = ms
			}
		})
	}
	all.Wait()
	return out
}

// describeLog is a log as place wants it told.
func (n *Node) describeLog(m *replica.Machine, ms *raft.Membership, applied map[replicaAt]uint64) place.Log {
	l := place.Log{ID: m.Shard, Version: ms.Version, Self: m.Replica, Applied: applied[replicaAt{n.id.HostID, m.Shard}]}
	add := func(set map[uint64]string, voting bool) {
		for _, id := range sortedShards(set) {
			host := set[id]
			l.Replicas = append(l.Replicas, place.Replica{
				ID: id, Node: n.nameOf(host), Disk: host, Voting: voting, Applied: applied[replicaAt{host, m.Shard}],
			})
		}
	}
	add(ms.Nodes, true)
	add(ms.NonVotings, false)
	for id := range ms.Removed {
		l.Removed = append(l.Removed, id)
	}
	return l
}

// carry carries one step out.
func (n *Node) carry(s place.Step) error {
	ctx, cancel := context.WithTimeout(context.Background(), changeWithin)
	defer cancel()
	log := n.logs[s.Log].raft
	switch s.Kind {
	case place.Add:
		return log.AddLearner(ctx, s.Replica, s.Disk, s.Version)
	case place.Promote:
		return log.Promote(ctx, s.Replica, s.Disk, s.Version)
	case place.Remove:
		err := log.Expel(ctx, s.Replica, s.Version)
		if err == nil && s.Disk != "" {
			n.tellRemoved(s.Disk)
		}
		return err
	case place.Transfer:
		return n.handOver(s.Log, s.Replica)
	}
	return nil
}

// of answers what the last round found of logs.
func (p *plans) of(logs []*replica.Machine) map[uint64]planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[uint64]planned, len(logs))
	for _, m := range logs {
		if old, ok := p.by[m.Shard]; ok {
			out[m.Shard] = old
		}
	}
	return out
}

// take keeps what a round found.
func (p *plans) take(found map[uint64]planned, view place.View, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, f := range found {
		f.since = now
		if old, ok := p.by[shard]; ok && old.step.Kind == f.step.Kind && old.step.Why == f.step.Why {
			f.since = old.since
		}
		found[shard] = f
	}
	p.by, p.view = found, view
}
