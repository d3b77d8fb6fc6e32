package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/wire"
)

// FindNode looks a node up.
func FindNode(doc *wire.ClusterStatus, id string) (*wire.NodeStatus, *wire.Error) {
	var names []string
	for i := range doc.Nodes {
		if doc.Nodes[i].NodeID == id {
			return &doc.Nodes[i], nil
		}
		names = append(names, doc.Nodes[i].NodeID)
	}
	return nil, wire.Errorf(wire.FailedPrecondition, "node %s: there is none of that name; there are %s",
		wire.Quote(id), some(names))
}

// some names a few of many for people.
func some(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// MayTransfer says why a node cannot lead a log.
func MayTransfer(doc *wire.ClusterStatus, log uint64, node string) *wire.Error {
	i := slices.IndexFunc(doc.Logs, func(l wire.LogStatus) bool { return l.Log == log })
	if i < 0 {
		return wire.Errorf(wire.FailedPrecondition,
			"log %d: there is none of that number; there are 1 (the system log) to %d", log, len(doc.Logs))
	}
	n, err := FindNode(doc, node)
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
			return wire.Errorf(wire.FailedPrecondition,
				"node %s: is drained and would be taken the lead again: take that back first (node_resume)", node)
		case !v.CaughtUp:
			return wire.Errorf(wire.FailedPrecondition,
				"node %s: its voter of log %d is %d entries behind: wait until it has caught up", node, log, v.Lag)
		}
		return nil
	}
	if len(voters) == 0 {
		return wire.Errorf(wire.FailedPrecondition,
			"log %d: its leader has not told yet who its voters are: wait a moment", log)
	}
	return wire.Errorf(wire.FailedPrecondition, "node %s: holds no voter of log %d; its voters are on %s", node, log,
		some(voters))
}

// MayDrain says why a node cannot be drained that far, or what the operator should
// know. Whoever takes over must be there: with at least one other node that is alive
// and stays, place.Plan brings every log there without losing its majority on the way.
func MayDrain(doc *wire.ClusterStatus, node string, d wire.Drain) (note string, err *wire.Error) {
	n, err := FindNode(doc, node)
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
		return "", wire.Errorf(wire.FailedPrecondition, "node %s: no other node is alive that could %s: %s", node,
			what, instead)
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
		return fmt.Sprintf("each log will have 1 voter instead of %d: when its node stops, the log does; to keep "+
			"%d, start another node first", before, before)
	}
	return fmt.Sprintf("each log will have %d voters instead of %d; to keep %d, start another node first", after,
		before, before)
}

// MayRemove says why a node cannot be removed, or what the operator should know.
func MayRemove(doc *wire.ClusterStatus, node string, force bool) (note string, err *wire.Error) {
	n, err := FindNode(doc, node)
	if err != nil {
		return "", err
	}
	drained := n.Drain == wire.DrainReplicas.String() || n.Drain == wire.DrainRemoved.String()
	if n.Alive && (!drained || n.Replicas > 0) && !force {
		return "", wire.Errorf(wire.FailedPrecondition,
			"node %s: is alive and holds %s: drain it first (node_drain with mode 2: pathlock node drain %s "+
				"--wait), or remove it with force",
			node, plural(n.Replicas, "replica", "replicas"), node)
	}
	if note, err = MayDrain(doc, node, wire.DrainReplicas); err != nil {
		return "", err
	}
	if log, all := told(doc); n.Alive && !all && !force {
		return "", wire.Errorf(wire.FailedPrecondition,
			"node %s: is alive, and no leader has told yet whether it holds a replica of log %d: wait a moment, or "+
				"remove it with force", node, log)
	}
	notes := []string{}
	if n.Alive {
		notes = append(notes, "it is still alive: stop it once it holds nothing")
	}
	if n.Replicas > 0 {
		notes = append(notes, fmt.Sprintf("its %s are given to other nodes now",
			plural(n.Replicas, "replica", "replicas")))
	}
	if note != "" {
		notes = append(notes, note)
	}
	return strings.Join(notes, "; "), nil
}
