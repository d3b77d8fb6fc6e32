package status

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Survey is what a node knows of the cluster at one moment. What operators are told, and what is checked of what they
// ask, is made from it alone.
type Survey struct {
	Format uint32                // Format is that of the data that all nodes share.
	Nodes  []Node                // Nodes are those seen since this node's start, itself included; dead ones too.
	Logs   []Log                 // Logs are all logs, hosted here or not.
	Marks  map[string]wire.Drain // Marks are what operators want of nodes, by node id.
}

// Node is a node as gossip tells of it.
type Node struct {
	ID, Host                   string // Host is the raft host id: of its disk.
	Alive                      bool
	Since                      time.Duration   // Since is how long Alive has been so.
	Stable                     bool            // Stable nodes count for placement, unless they leave.
	Placed                     bool            // Placed nodes are those that this node lays logs out over.
	Drain                      place.Drain     // Drain is what the node says of itself.
	Native, Raft, Link, Gossip string          // host:port, "" when not told
	Shortage                   gossip.Shortage // Shortage is of disk space; zero when there is none.
	Formats                    [2]uint32       // Formats are the lowest and the highest that it works with.
}

// Log is a log as its leader told of it last.
type Log struct {
	place.Log               // Self is of the leader at that time.
	Leader    string        // Leader is a node id, "" when nobody is known to lead.
	Last      string        // Last is the node that led it last, while nobody leads; "" when that is not known.
	Term      uint64        // Term is the leader's.
	Target    []string      // Target is the nodes its voters belong on; nil when no leader has told yet.
	Placed    []string      // Placed is the nodes that its leader lays logs out over; nil when it has not told.
	Step      string        // Step is what is done about it, or waited for, for people.
	Since     time.Duration // Since is how long the step is this one.
	Stalled   time.Duration // Stalled is how long its leader's entries have not been applied, 0 when they are.
	Groups    int           // Groups is how many groups are in it.
}

// logName is a log's name for people.
func logName(log uint64) string {
	if log == rows.SystemLog {
		return "system"
	}
	return strconv.FormatUint(log, 10)
}

// Report is the survey as operators are told it, with what is wrong with the cluster and what to do about it.
func (s *Survey) Report(cluster, self string, settings wire.ClusterSettings) *wire.ClusterStatus {
	doc := s.document()
	doc.ClusterID, doc.Self, doc.Settings = cluster, self, settings
	judge(doc)
	return doc
}

// document makes the document of a survey, but for what the cluster was founded with.
func (s *Survey) document() *wire.ClusterStatus {
	doc := &wire.ClusterStatus{
		Format: s.Format, Healthy: true, Problems: []string{}, Warnings: []string{}, Nodes: []wire.NodeStatus{},
		Logs: []wire.LogStatus{},
	}
	nodes := s.listNodes()
	for i := range s.Logs {
		l := s.Logs[i].report(nodes)
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
func (s *Survey) listNodes() map[string]*wire.NodeStatus {
	nodes := make(map[string]*wire.NodeStatus, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		nodes[n.ID] = &wire.NodeStatus{
			NodeID: n.ID, HostID: n.Host, Alive: n.Alive, ForMillis: n.Since.Milliseconds(), Stable: n.Stable,
			Placed: n.Placed,
			Drain:  max(wire.Drain(n.Drain), s.Marks[n.ID]).String(), NativeAddr: n.Native, RaftAddr: n.Raft,
			LinkAddr:   n.Link,
			GossipAddr: n.Gossip, Formats: n.Formats, State: wire.NodeDead, DiskFree: n.Shortage.Free,
			DiskReserve: n.Shortage.Reserve,
		}
	}
	for id, mark := range s.Marks {
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
func (l *Log) report(nodes map[string]*wire.NodeStatus) wire.LogStatus {
	out := wire.LogStatus{
		Log: l.ID, Name: logName(l.ID), Leader: l.Leader, LastLeader: l.Last, Term: l.Term, Version: l.Version,
		Target: append([]string{}, l.Target...),
		Voters: []wire.ReplicaStatus{}, Learners: []wire.ReplicaStatus{}, Step: l.Step,
		StepMillis: l.Since.Milliseconds(), StalledMillis: l.Stalled.Milliseconds(), Groups: l.Groups,
	}
	if l.Placed != nil {
		for id, n := range nodes {
			n.Placed = n.Placed && slices.Contains(l.Placed, id)
		}
	}
	due := len(l.Target) > 0 && l.Leader != "" && l.Stalled == 0
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
		due = due && replica.CaughtUp && slices.Contains(l.Target, r.Node)
		out.Voters = append(out.Voters, replica)
	}
	if n := nodes[l.Leader]; n != nil {
		n.Leads++
	}
	out.Healthy = due && len(out.Voters) == len(l.Target)
	return out
}

// StepText is a step for people, beside the log it is about.
func StepText(step place.Step) string {
	return strings.TrimPrefix(step.String(), fmt.Sprintf("log %d: ", step.Log))
}
