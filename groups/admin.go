package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// Operators look at the cluster and ask things of its nodes through operations of
// their own. Whatever is asked is checked against what this node knows (survey.go),
// written to the system log as a mark on the node (engine/mark.go), and acted on by
// the leader of each log, which plans by the marks (place.Members). Two operators who
// ask at the same time at different nodes may pass both checks: then nothing unsafe is
// done, since Plan keeps every log's majority, but a drain does not end.

// administers says that an operation is one of operators'. They are taken in any
// condition of the node: they say what is wrong, and mend it.
func administers(op wire.Op) bool {
	switch op {
	case wire.OpClusterStatus, wire.OpClusterTransfer, wire.OpNodeDrain, wire.OpNodeResume, wire.OpNodeRemove:
		return true
	}
	return false
}

// administer carries an operator's request out.
func (s *steps) administer() (res wire.Result, err *wire.Error) {
	doc := s.n.clusterStatus()
	if s.c.Op != wire.OpClusterStatus && s.n.draining.Load() {
		return res, wire.Errorf(wire.Unavailable, "the node is draining; nothing was done, ask another one")
	}
	node := strings.Clone(s.req.Node)
	switch s.c.Op {
	case wire.OpClusterStatus:
		text, bad := doc.Encode()
		if bad != nil {
			return res, wire.Errorf(wire.Internal, "%v", bad)
		}
		return wire.Result{Message: text}, nil
	case wire.OpClusterTransfer:
		return res, s.handOver(doc, s.req.Target, node)
	case wire.OpNodeDrain:
		if res.Message, err = checkDrain(doc, node, s.req.Drain); err == nil {
			err = s.mark(node, s.req.Drain)
		}
	case wire.OpNodeRemove:
		if res.Message, err = checkRemove(doc, node, s.req.Explicit); err == nil {
			err = s.mark(node, wire.DrainRemoved)
		}
	case wire.OpNodeResume:
		was := s.n.wantedOf(0)[node]
		if was == wire.DrainRemoved && s.n.cluster != nil {
			s.n.cluster.forgetEverywhere()
		}
		if _, err = findNode(doc, node); err == nil || was != wire.DrainNone {
			err = s.mark(node, wire.DrainNone)
		}
	}
	if err != nil {
		res.Message = ""
	}
	return res, err
}

// clusterStatus is the cluster as this node sees it.
func (n *Node) clusterStatus() *wire.ClusterStatus {
	s := n.survey()
	doc := s.report()
	doc.ClusterID, doc.Self = n.id.ClusterID, n.id.NodeID
	doc.Settings = wire.ClusterSettings{
		GroupCount: n.id.GroupCount, LogCount: n.id.LogCount, ReplicationFactor: n.id.Replication,
		Segments: n.id.Segments, Algorithm: n.id.Algorithm,
	}
	judge(doc)
	return doc
}

// mark writes to the system log what is wanted of a node.
func (s *steps) mark(node string, d wire.Drain) *wire.Error {
	return s.all([]command{{group: replica.SystemGroup, sub: 1, req: &wire.Request{Op: wire.OpMarkNode, Node: node, Drain: d}}})
}

// handEvery is how often a leadership is offered again: raft drops about two of three
// offers that come right after writes.
const handEvery = 250 * time.Millisecond

// handOver gives the leadership of a log to a node, and waits until it has it.
func (s *steps) handOver(doc *wire.ClusterStatus, log uint64, node string) *wire.Error {
	if err := checkTransfer(doc, log, node); err != nil {
		return err
	}
	for {
		if s.n.leads(log, node) {
			return nil
		}
		if err := s.n.transfer(log, node); err != nil {
			return asWire(err)
		}
		if s.n.clock.Mono()-s.since >= s.n.cfg.RequestTimeout {
			return wire.Errorf(wire.Unavailable, "node %s did not come to lead log %d within request_timeout_ms; it may yet", node, log)
		}
		select {
		case <-s.n.stop:
			return wire.Errorf(wire.Unavailable, "the node is shutting down; ask another one")
		case <-time.After(handEvery):
		}
	}
}

// leads says whether a log is known to be led by a node.
func (n *Node) leads(log uint64, node string) bool {
	s := n.survey()
	for i := range s.logs {
		if s.logs[i].ID == log {
			return s.logs[i].leader == node
		}
	}
	return false
}

// asWire is an error as a client is told of it.
func asWire(err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	return wire.Errorf(wire.Unavailable, "%v", err)
}

// findNode looks a node up.
func findNode(doc *wire.ClusterStatus, id string) (*wire.NodeStatus, *wire.Error) {
	var names []string
	for i := range doc.Nodes {
		if doc.Nodes[i].NodeID == id {
			return &doc.Nodes[i], nil
		}
		names = append(names, doc.Nodes[i].NodeID)
	}
	return nil, wire.Errorf(wire.FailedPrecondition, "node %s: there is none of that name; there are %s", wire.Quote(id), some(names))
}

// some names a few of many for people.
func some(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// checkTransfer says why a node cannot lead a log.
func checkTransfer(doc *wire.ClusterStatus, log uint64, node string) *wire.Error {
	i := slices.IndexFunc(doc.Logs, func(l wire.LogStatus) bool { return l.Log == log })
	if i < 0 {
		return wire.Errorf(wire.FailedPrecondition, "log %d: there is none of that number; there are 1 (the system log) to %d", log, len(doc.Logs))
	}
	n, err := findNode(doc, node)
	if err != nil {
		return err
	}
	l := &doc.Logs[i]
	if l.Leader == node {
		return nil
	}
	var voters []string
	for _, v := range l.Voters {
		if v.Node != node {
			voters = append(voters, v.Node)
			continue
		}
		switch {
		case !n.Alive:
			return wire.Errorf(wire.FailedPrecondition, "node %s: is not seen: start it first", node)
		case n.Drain != wire.DrainNone.String():
			return wire.Errorf(wire.FailedPrecondition, "node %s: is drained and would be taken the lead again: take that back first (node_resume)", node)
		case !v.CaughtUp:
			return wire.Errorf(wire.FailedPrecondition, "node %s: its voter of log %d is %d entries behind: wait until it has caught up", node, log, v.Lag)
		}
		return nil
	}
	if len(voters) == 0 {
		return wire.Errorf(wire.FailedPrecondition, "log %d: its leader has not told yet who its voters are: wait a moment", log)
	}
	return wire.Errorf(wire.FailedPrecondition, "node %s: holds no voter of log %d; its voters are on %s", node, log, some(voters))
}

// checkDrain says why a node cannot be drained that far, or what the operator should
// know. Whoever takes over must be there: with at least one other node that is alive
// and stays, place.Plan brings every log there without losing its majority on the way.
func checkDrain(doc *wire.ClusterStatus, node string, d wire.Drain) (note string, err *wire.Error) {
	n, err := findNode(doc, node)
	if err != nil {
		return "", err
	}
	others, drained := 0, []string(nil)
	for i := range doc.Nodes {
		switch o := &doc.Nodes[i]; {
		case o == n || !o.Alive:
		case o.Drain == wire.DrainNone.String(), d >= wire.DrainReplicas && o.Drain == wire.DrainLeads.String():
			others++
		default:
			drained = append(drained, o.NodeID)
		}
	}
	if others == 0 {
		what := "hold its logs"
		if d == wire.DrainLeads {
			what = "lead its logs"
		}
		instead := "start another one first"
		if len(drained) > 0 {
			instead += ", or take back what is asked of " + some(drained) + " (node_resume)"
		}
		return "", wire.Errorf(wire.FailedPrecondition, "node %s: no other node is alive that could %s: %s", node, what, instead)
	}
	if d < wire.DrainReplicas || !holds(n) {
		return "", nil
	}
	return fewer(doc), nil
}

// fewer tells what it means that one node less holds logs.
func fewer(doc *wire.ClusterStatus) string {
	factor, nodes := doc.Settings.ReplicationFactor, placeable(doc)
	before, after := place.Voters(nodes, factor), place.Voters(nodes-1, factor)
	switch {
	case after == before:
		return ""
	case after <= 1:
		return fmt.Sprintf("each log will have 1 voter instead of %d: when its node stops, the log does; to keep %d, start another node first", before, before)
	}
	return fmt.Sprintf("each log will have %d voters instead of %d; to keep %d, start another node first", after, before, before)
}

// checkRemove says why a node cannot be removed, or what the operator should know.
func checkRemove(doc *wire.ClusterStatus, node string, force bool) (note string, err *wire.Error) {
	n, err := findNode(doc, node)
	if err != nil {
		return "", err
	}
	drained := n.Drain == wire.DrainReplicas.String() || n.Drain == wire.DrainRemoved.String()
	if n.Alive && (!drained || n.Replicas > 0) && !force {
		return "", wire.Errorf(wire.FailedPrecondition,
			"node %s: is alive and holds %s: drain it first (node_drain with mode 2: pathlock node drain %s --wait), or remove it with force",
			node, plural(n.Replicas, "replica", "replicas"), node)
	}
	if note, err = checkDrain(doc, node, wire.DrainReplicas); err != nil {
		return "", err
	}
	if log, all := told(doc); n.Alive && !all && !force {
		return "", wire.Errorf(wire.FailedPrecondition,
			"node %s: is alive, and no leader has told yet whether it holds a replica of log %d: wait a moment, or remove it with force", node, log)
	}
	notes := []string{}
	if n.Alive {
		notes = append(notes, "it is still alive: stop it once it holds nothing")
	}
	if n.Replicas > 0 {
		notes = append(notes, fmt.Sprintf("its %s are given to other nodes now", plural(n.Replicas, "replica", "replicas")))
	}
	if note != "" {
		notes = append(notes, note)
	}
	return strings.Join(notes, "; "), nil
}
