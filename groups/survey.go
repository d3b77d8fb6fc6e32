package groups

import (
	"fmt"
	"strings"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// survey finds out what is known of the cluster now.
func (n *Node) survey() *survey {
	if n.cluster != nil {
		return n.surveyAll()
	}
	up := n.clock.Mono()
	s := &survey{format: n.formats.written(), marks: n.marks()}
	s.nodes = []nodeSeen{{
		id: n.id.NodeID, host: n.id.HostID, alive: true, since: up, stable: true, placed: true,
		native: n.cfg.NativeAddr, raft: n.cfg.RaftAddr, formats: n.formats.own(), shortage: n.shortage(),
	}}
	nodes := map[string]place.Node{n.id.NodeID: {ID: n.id.NodeID, Disk: n.id.HostID, Alive: true, Steady: true, Stable: true}}
	for _, shard := range n.id.shards() {
		l := n.logs[shard]
		lead := l.lead.Load()
		seen := logSeen{
			Log: place.Log{ID: shard, Self: lead.leader}, term: lead.term, target: []string{n.id.NodeID},
			step: "wait: no leader", since: up, groups: len(n.groupsOf(shard)),
		}
		if m := l.local.Load(); m != nil {
			seen.Applied = m.AppliedIndex()
			seen.Replicas = []place.Replica{{ID: m.Replica, Node: n.id.NodeID, Disk: n.id.HostID, Voting: true, Applied: seen.Applied}}
		}
		if l.isOwn(lead.leader) {
			seen.leader = n.id.NodeID
			seen.step = stepText(place.Plan(&seen.Log, seen.target, nodes))
			seen.stalled = l.stalled()
		}
		s.logs = append(s.logs, seen)
	}
	return s
}

// stepText is a step for people, beside the log it is about.
func stepText(step place.Step) string {
	return strings.TrimPrefix(step.String(), fmt.Sprintf("log %d: ", step.Log))
}

// marks is what operators want of nodes, as far as this node has applied the system
// log.
func (n *Node) marks() map[string]wire.Drain {
	m := n.logs[replica.SystemShard].local.Load()
	if m == nil {
		return nil
	}
	return m.Marks()
}

// transfer asks for the leadership of a log to be handed to a node, which need not
// happen: who asks looks whether it has, and asks again.
func (n *Node) transfer(log uint64, node string) error {
	if n.cluster != nil {
		return n.transferAny(log, node)
	}
	return wire.Errorf(wire.Unavailable, "node %s cannot take over log %d: this node is alone", node, log)
}
