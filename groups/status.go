package groups

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// survey is what a node knows of the cluster at one moment (survey.go). What operators
// are told, and what is checked of what they ask, is made from it alone.
type survey struct {
	format uint32     // of the data that all nodes share
	nodes  []nodeSeen // seen since this node's start, itself included; dead ones too
	logs   []logSeen  // every log, hosted here or not
	marks  map[string]wire.Drain
}

// nodeSeen is a node as gossip tells of it.
type nodeSeen struct {
	id, host                   string
	alive                      bool
	since                      time.Duration // how long alive has been so
	stable                     bool          // counts for placement, unless it leaves
	placed                     bool          // logs are laid out over it, as this node does that
	drain                      place.Drain   // what it says of itself
	native, raft, link, gossip string
	shortage                   gossip.Shortage // of disk space
	formats                    [2]uint32
}

// logSeen is a log as its leader told of it last.
type logSeen struct {
	place.Log          // Self is of the leader at that time
	leader    string   // node id, "" when nobody is known to lead
	last      string   // who led it last then, as far as this node knows
	term      uint64   // of the leader
	target    []string // nodes its voters belong on; nil: no leader has told yet
	placed    []string // nodes that its leader lays logs out over; nil: it has not told
	step      string   // what is done about it, or waited for
	since     time.Duration
	stalled   time.Duration // how long its leader's entries have not been applied, 0: they are
	groups    int
}

// logName is a log's name for people.
func logName(log uint64) string {
	if log == replica.SystemShard {
		return "system"
	}
	return strconv.FormatUint(log, 10)
}

// report makes the document of a survey, but for what the cluster was founded with.
func (s *survey) report() *wire.ClusterStatus {
	doc := &wire.ClusterStatus{
		Format: s.format, Healthy: true, Problems: []string{}, Warnings: []string{}, Nodes: []wire.NodeStatus{}, Logs: []wire.LogStatus{},
	}
	nodes := s.listNodes()
	for i := range s.logs {
		l := s.logs[i].report(nodes)
		doc.Healthy = doc.Healthy && l.Healthy
		doc.Logs = append(doc.Logs, l)
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[id]
		if n.Drain == wire.DrainRemoved.String() && !n.Alive && n.Replicas == 0 {
			continue // forgotten
		}
		n.State = stateOf(n)
		doc.Nodes = append(doc.Nodes, *n)
	}
	return doc
}

// listNodes is every node that is seen, or has something asked of it.
func (s *survey) listNodes() map[string]*wire.NodeStatus {
	nodes := make(map[string]*wire.NodeStatus, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		nodes[n.id] = &wire.NodeStatus{
			NodeID: n.id, HostID: n.host, Alive: n.alive, ForMillis: n.since.Milliseconds(), Stable: n.stable, Placed: n.placed,
			Drain: max(wire.Drain(n.drain), s.marks[n.id]).String(), NativeAddr: n.native, RaftAddr: n.raft, LinkAddr: n.link,
			GossipAddr: n.gossip, Formats: n.formats, State: wire.NodeDead, DiskFree: n.shortage.Free, DiskReserve: n.shortage.Reserve,
		}
	}
	for id, mark := range s.marks {
		if nodes[id] == nil {
			nodes[id] = unseen(id)
			nodes[id].Drain = mark.String()
		}
	}
	return nodes
}

// unseen is a node that somebody told of, and that was not seen.
func unseen(id string) *wire.NodeStatus {
	return &wire.NodeStatus{NodeID: id, Drain: wire.DrainNone.String(), State: wire.NodeUnknown}
}

// stateOf is what people are told of a node.
func stateOf(n *wire.NodeStatus) string {
	switch {
	case !n.Alive:
		return n.State // dead or unknown, as it was listed
	case n.Drain == wire.DrainReplicas.String(), n.Drain == wire.DrainRemoved.String():
		return wire.NodeLeaving
	case n.Drain == wire.DrainLeads.String():
		return wire.NodeDraining
	case !n.Stable:
		return wire.NodeJoining
	}
	return wire.NodeMember
}

// report makes a log's part of the document, and counts its replicas with their nodes.
func (l *logSeen) report(nodes map[string]*wire.NodeStatus) wire.LogStatus {
	out := wire.LogStatus{
		Log: l.ID, Name: logName(l.ID), Leader: l.leader, LastLeader: l.last, Term: l.term, Version: l.Version, Target: append([]string{}, l.target...),
		Voters: []wire.ReplicaStatus{}, Learners: []wire.ReplicaStatus{}, Step: l.step, StepMillis: l.since.Milliseconds(), StalledMillis: l.stalled.Milliseconds(), Groups: l.groups,
	}
	if l.placed != nil {
		for id, n := range nodes {
			n.Placed = n.Placed && slices.Contains(l.placed, id)
		}
	}
	due := len(l.target) > 0 && l.leader != "" && l.stalled == 0
	for _, r := range l.Replicas {
		n := nodes[r.Node]
		if n == nil {
			n = unseen(r.Node)
			nodes[r.Node] = n
		}
		n.Replicas++
		lost := n.HostID != "" && r.Disk != "" && n.HostID != r.Disk
		replica := wire.ReplicaStatus{
			Node: r.Node, Replica: r.ID, Applied: r.Applied, Lag: l.Applied - min(r.Applied, l.Applied),
			CaughtUp: n.Alive && !lost && r.Applied > 0 && r.Applied+place.MaxLag >= l.Applied,
		}
		if !r.Voting {
			out.Learners = append(out.Learners, replica)
			continue
		}
		due = due && replica.CaughtUp && slices.Contains(l.target, r.Node)
		out.Voters = append(out.Voters, replica)
	}
	if n := nodes[l.leader]; n != nil {
		n.Leads++
	}
	out.Healthy = due && len(out.Voters) == len(l.target)
	return out
}
