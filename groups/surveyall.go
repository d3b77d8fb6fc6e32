package groups

import (
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/groups/status"
	"github.com/pathlockd/pathlockd/wire"
)

// surveyAll asks every node that leads a log what it knows of its logs. One that does
// not answer within askWithin is left out: of its logs only the leader is told then.
func (n *Node) surveyAll() *status.Survey {
	n.plans.mu.Lock()
	view := n.plans.view
	n.plans.mu.Unlock()
	n.catchUp() // who marked a node and looks then, here or elsewhere, sees the mark
	s := &status.Survey{Format: n.formats.Written(), Marks: n.wantedOf(0)}
	since := make(map[string]time.Duration) // what the cluster keeps of a node is as old as its last change
	for _, x := range n.cluster.gossip.Members() {
		since[x.HostID] = x.For
	}
	for _, x := range n.cluster.sightings() {
		if current, ok := n.cluster.byName(x.NodeID); ok && current.HostID != x.HostID {
			continue // its disk was replaced
		}
		drain := place.DrainNothing
		if x.State == gossip.Draining || x.State == gossip.Leaving {
			drain = place.DrainLeads
		}
		s.Nodes = append(s.Nodes, status.Node{
			ID: x.NodeID, Host: x.HostID, Alive: x.Alive, Placed: slices.Contains(view.Placed, x.NodeID),
			Since: max(since[x.HostID], x.For), Stable: view.Nodes[x.NodeID].Stable, Drain: drain,
			Native: x.NativeAddr, Raft: x.RaftAddr, Link: x.LinkAddr, Gossip: x.GossipAddr,
			Formats: [2]uint32{x.FormatMin, x.FormatMax}, Shortage: x.Shortage,
		})
	}
	told := n.askPlans()
	for _, shard := range n.id.Logs() {
		host, term := n.leaderOf(shard)
		seen := status.Log{
			Log: place.Log{ID: shard}, Term: term, Step: "wait: no leader", Groups: len(n.groupsOf(shard)),
		}
		l := n.logs[shard]
		unled := l.leaderless()
		if unled {
			d, why := n.noLeader(shard)
			seen.Step, seen.Since = "wait: "+why, d
			if l.deserted() {
				host = n.lastLeader(shard)
			}
			if host != "" {
				seen.Last = n.nameOf(host) // people are to know whom this node does not reach
			}
		} else if host != "" {
			seen.Leader, seen.Step = n.nameOf(host), "wait: its leader has not told yet"
			if x, ok := n.cluster.sighting(host); host != n.id.HostID && (!ok || !x.Alive) {
				seen.Step = "wait: its leader is not seen"
			}
		}
		if t, ok := told[shard]; ok && t.Term >= term {
			seen.Last = ""
			seen.Log, seen.Term, seen.Target, seen.Step, seen.Since = t.Log, t.Term, t.Voters, t.Step, t.Since
			seen.Stalled, seen.Placed = t.Stall, t.Placed
		}
		s.Logs = append(s.Logs, seen)
	}
	return s
}

// catchUp waits until this node's replica of the system log has applied what was
// committed, or for as long as another node's answer is waited for.
func (n *Node) catchUp() {
	done := make(chan struct{})
	n.read(n.logs[rows.SystemLog], &replica.Query{What: replica.AskAny}, n.clock.Mono(),
		func(*wire.Result) { close(done) })
	late := time.NewTimer(askWithin)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-n.stop:
	}
}

// askPlans gathers what the leaders of all logs found in their last round.
func (n *Node) askPlans() map[uint64]toldLog {
	out := make(map[uint64]toldLog)
	var mu sync.Mutex
	take := func(logs []toldLog) {
		mu.Lock()
		defer mu.Unlock()
		for _, t := range logs {
			if old, ok := out[t.Log.ID]; !ok || t.Term > old.Term {
				out[t.Log.ID] = t
			}
		}
	}
	take(n.plans.told(n))
	hosts := make(map[string]bool)
	for _, shard := range n.id.Logs() {
		if host, _ := n.leaderOf(shard); host != "" && host != n.id.HostID {
			hosts[host] = true
		}
	}
	var all sync.WaitGroup
	for host := range hosts {
		all.Go(func() {
			var logs []toldLog
			if err := n.cluster.askText(host, askPlans, nil, &logs, askWithin); err == nil {
				take(logs)
			}
		})
	}
	all.Wait()
	return out
}

// transferAny asks the leader of a log to hand it over.
func (n *Node) transferAny(shard uint64, node string) error {
	host, _ := n.leaderOf(shard)
	if host == n.id.HostID || host == "" {
		return n.transferOwn(shard, node)
	}
	return n.cluster.askText(host, askTransfer, orderedTransfer{shard, node}, nil, transferWithin+time.Second)
}
