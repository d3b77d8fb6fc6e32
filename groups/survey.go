package groups

import (
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/groups/status"
	"github.com/pathlockd/pathlockd/wire"
)

// survey finds out what is known of the cluster now.
func (n *Node) survey() *status.Survey {
	if n.cluster != nil {
		return n.surveyAll()
	}
	up := n.clock.Mono()
	s := &status.Survey{Format: n.formats.Written(), Marks: n.marks()}
	s.Nodes = []status.Node{{
		ID: n.id.NodeID, Host: n.id.HostID, Alive: true, Since: up, Stable: true, Placed: true,
		Native: n.cfg.NativeAddr, Raft: n.cfg.RaftAddr, Formats: n.formats.Own(), Shortage: n.shortage(),
	}}
	nodes := map[string]place.Node{n.id.NodeID: {ID: n.id.NodeID, Disk: n.id.HostID, Alive: true, Steady: true,
		Stable: true}}
	for _, shard := range n.id.Logs() {
		l := n.logs[shard]
		lead := l.lead.Load()
		seen := status.Log{
			Log: place.Log{ID: shard, Self: lead.leader}, Term: lead.term, Target: []string{n.id.NodeID},
			Step: "wait: no leader", Since: up, Groups: len(n.groupsOf(shard)),
		}
		if m := l.local.Load(); m != nil {
			seen.Applied = m.AppliedIndex()
			seen.Replicas = []place.Replica{{ID: m.Replica, Node: n.id.NodeID, Disk: n.id.HostID, Voting: true,
				Applied: seen.Applied}}
		}
		if l.isOwn(lead.leader) {
			seen.Leader = n.id.NodeID
			seen.Step = status.StepText(place.Plan(&seen.Log, seen.Target, nodes))
			seen.Stalled = l.stalled()
		}
		s.Logs = append(s.Logs, seen)
	}
	return s
}

// marks is what operators want of nodes, as far as this node has applied the system
// log.
func (n *Node) marks() map[string]wire.Drain {
	m := n.logs[rows.SystemLog].local.Load()
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
