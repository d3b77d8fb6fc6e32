package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/wire"
)

// judge adds to a document what is wrong with the cluster and what to do about it.
// Logs that have the same thing wrong with them are told of together.
func judge(doc *wire.ClusterStatus) {
	nodes := make(map[string]*wire.NodeStatus, len(doc.Nodes))
	for i := range doc.Nodes {
		nodes[doc.Nodes[i].NodeID] = &doc.Nodes[i]
	}
	logs := make(map[string][]string) // what is wrong, with %s for the logs
	for i := range doc.Logs {
		if l := &doc.Logs[i]; !l.Healthy {
			why := ailment(l, nodes)
			if logs[why] == nil {
				doc.Problems = append(doc.Problems, why)
			}
			logs[why] = append(logs[why], l.Name)
		}
	}
	for i, why := range doc.Problems {
		doc.Problems[i] = strings.Replace(why, "%s", logList(logs[why]), 1)
	}
	if p := joining(doc); p != "" {
		doc.Healthy = false
		doc.Problems = append(doc.Problems, p)
	}
	for i := range doc.Nodes {
		if p := cramped(&doc.Nodes[i]); p != "" {
			doc.Problems = append(doc.Problems, p) // the logs are as healthy as they are
		}
	}
	_, all := told(doc)
	for i := range doc.Nodes {
		if w := remark(&doc.Nodes[i], all); w != "" {
			doc.Warnings = append(doc.Warnings, w)
		}
	}
	factor := doc.Settings.ReplicationFactor
	if n := placeable(doc); n < factor && doc.Healthy {
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("replication_factor is %d and logs can be placed on %s, so "+
			"each has %s: start %s with seed_nodes",
			factor, plural(n, "node", "nodes"), plural(place.Voters(n, factor), "voter", "voters"),
			plural(factor-n, "more node", "more nodes")))
	}
	if w := mixed(doc); w != "" {
		doc.Warnings = append(doc.Warnings, w)
	}
}

// joining tells of nodes that are seen and not placed: a cluster that is being put together
// is not healthy before every one of them is, as its leaders too must know.
func joining(doc *wire.ClusterStatus) string {
	var ids []string
	for i := range doc.Nodes {
		if n := &doc.Nodes[i]; n.Alive && !n.Placed && (n.State == wire.NodeJoining || n.State == wire.NodeMember ||
			n.State == wire.NodeDraining) {
			ids = append(ids, n.NodeID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	n, factor := placeable(doc), doc.Settings.ReplicationFactor
	now, then := place.Voters(n, factor), place.Voters(n+len(ids), factor)
	is := "is"
	if len(ids) > 1 {
		is = "are"
	}
	if then <= now {
		return fmt.Sprintf("%s %s joining, and logs are not laid out with it yet: wait; who is seen for "+
			"stability_window_secs counts", some(ids), is)
	}
	return fmt.Sprintf("%s %s joining, and each log will have %s instead of %d: wait; who is seen for "+
		"stability_window_secs counts",
		some(ids), is, plural(then, "voter", "voters"), now)
}

// cramped is what is wrong with a node that is short of disk space. Others lead in its
// place, if any of them has room and is caught up.
func cramped(n *wire.NodeStatus) string {
	if !n.Alive || n.DiskFree >= n.DiskReserve {
		return ""
	}
	what := "others lead in its place"
	if n.Leads > 0 {
		what = "what it leads (" + plural(n.Leads, "log", "logs") + ") takes no writes"
	}
	return fmt.Sprintf("%s has %d MiB free in data_dir, below disk_reserve_bytes (%d MiB), and %s: make room there",
		n.NodeID, n.DiskFree>>20, n.DiskReserve>>20, what)
}

// ailment is what is wrong with a log first of all.
func ailment(l *wire.LogStatus, nodes map[string]*wire.NodeStatus) string {
	alive := func(id string) bool { n := nodes[id]; return n != nil && n.Alive }
	var away []string
	for _, v := range l.Voters {
		if !alive(v.Node) {
			away = append(away, v.Node)
		}
	}
	switch {
	case l.Leader == "" && 2*len(away) >= max(len(l.Voters), 1) && len(away) > 0:
		return "%s has no leader, because most of its voters are away: start " + strings.Join(away, " and ") +
			" with their data"
	case l.Leader == "" && len(away) > 0:
		return "%s has no leader while " + strings.Join(away, " and ") +
			" is away: its other voters elect one; if this lasts, see whether they reach each other (raft_addr)"
	case l.Leader == "" && l.LastLeader != "":
		return ledLast(l.LastLeader, alive(l.LastLeader))
	case l.Leader == "":
		return "%s has no leader known here: its voters elect one; if this lasts, see whether the nodes reach each " +
			"other (raft_addr, link_addr)"
	case len(l.Target) == 0 && !alive(l.Leader):
		// Only its leader would tell who else votes. With two nodes nobody does.
		return ledLast(l.Leader, false)
	case len(l.Target) == 0:
		return "%s has a leader that has not told of it yet: wait a moment; if this lasts, see whether this " +
			"node reaches " + l.Leader + " (link_addr)"
	case l.StalledMillis > 0:
		return fmt.Sprintf("%%s is led by %s, and what it proposed %d s ago is not applied yet, so writes wait: if "+
			"this lasts, see whether its voters reach each other (raft_addr), and whether a disk is stuck",
			l.Leader, l.StalledMillis/1000)
	case len(away) > 0:
		first := away[0]
		return "%s has a voter on " + first +
			", which is not seen: start it, or give it up for good with pathlock node remove " + first
	}
	for _, v := range l.Voters {
		if !v.CaughtUp {
			return "%s has a voter on " + v.Node +
				" that is behind: wait; if its lag does not shrink, look at that node's disk and log"
		}
	}
	for _, id := range l.Target {
		switch {
		case hasReplica(l.Voters, id):
		case !alive(id):
			return "%s should have a voter on " + id +
				", which is not seen: start it, or give it up for good with pathlock node remove " + id
		case hasReplica(l.Learners, id):
			return "%s gets a voter on " + id +
				", which is still catching up: wait; one that makes no headway for twice eviction_window_secs is " +
				"made anew, which its leader logs"
		default:
			return "%s is to get a voter on " + id + ": wait; if this lasts, the step of the log says for what"
		}
	}
	return "%s has a voter that belongs elsewhere, and is about to give it up: wait; if this lasts, the step of the " +
		"log says for what"
}

// ledLast is what is wrong with a log whose leader is gone, or not reached, before this node hears of another one.
func ledLast(node string, alive bool) string {
	is, look := "is not seen", ""
	if alive {
		is, look = "this node does not reach", "see whether this node reaches "+node+" (link_addr), and "
	}
	return "%s was led by " + node + ", which " + is +
		", and nobody is known here to lead it since: if most of its voters are left they elect one in a moment; " +
		"if this lasts, " + look + "ask another node (pathlock status); if none knows better, start " + node +
		" with its data, and who else is away; if that is lost, restore a backup (docs/operations/disk-replacement.md)"
}

func hasReplica(all []wire.ReplicaStatus, node string) bool {
	return slices.ContainsFunc(all, func(r wire.ReplicaStatus) bool { return r.Node == node })
}

// told says whether the replicas of every log are known, and if not a log of which
// they are not: until then nobody can say that a node holds nothing.
func told(doc *wire.ClusterStatus) (untold uint64, all bool) {
	for i := range doc.Logs {
		if len(doc.Logs[i].Voters) == 0 {
			return doc.Logs[i].Log, false
		}
	}
	return 0, true
}

// remark is what is worth a look about a node though it makes no log unhealthy. all
// says that the replicas it holds are all known.
func remark(n *wire.NodeStatus, all bool) string {
	removed := n.Drain == wire.DrainRemoved.String()
	switch {
	case n.Replicas == 0 && !all:
	case n.Alive && removed && n.Replicas == 0:
		return n.NodeID + " was removed, holds nothing and still runs: stop it, or take it back with pathlock " +
			"node resume " + n.NodeID
	case n.Alive && removed:
		return n.NodeID + " was removed and still holds " + plural(n.Replicas, "replica", "replicas") +
			": leave it running until they are elsewhere"
	case n.Alive && n.Replicas == 0 && n.Drain == wire.DrainReplicas.String():
		return n.NodeID + " is drained and holds nothing: stop it and say pathlock node remove " + n.NodeID +
			", or take it back with pathlock node resume " + n.NodeID
	case !n.Alive && n.Replicas == 0 && !removed:
		return n.NodeID + " is away and holds nothing: start it, or have it forgotten with pathlock node remove " +
			n.NodeID
	case n.Alive && n.DiskReserve > 0 && n.DiskFree >= n.DiskReserve:
		return fmt.Sprintf("%s has %d MiB free in data_dir again, and disk_reserve_bytes is %d MiB: it leads logs "+
			"again once a quarter more than that has been free for stability_window_secs",
			n.NodeID, n.DiskFree>>20, n.DiskReserve>>20)
	}
	return ""
}

// mixed says that nodes of different versions run together.
func mixed(doc *wire.ClusterStatus) string {
	low, high, at := uint32(0), uint32(0), ""
	for _, n := range doc.Nodes {
		if newest := n.Formats[1]; n.Alive && newest != 0 {
			if low == 0 || newest < low {
				low, at = newest, n.NodeID
			}
			high = max(high, newest)
		}
	}
	if low == high {
		return ""
	}
	return fmt.Sprintf("nodes of different versions run together (%s works with formats up to %d, others up to %d): "+
		"finish the upgrade", at, low, high)
}

// placeable is how many nodes logs can be placed on.
func placeable(doc *wire.ClusterStatus) (n int) {
	for i := range doc.Nodes {
		if holds(&doc.Nodes[i]) {
			n++
		}
	}
	return n
}

// holds says whether logs can be placed on a node: as in place.Members.
func holds(n *wire.NodeStatus) bool {
	return n.Stable && (n.Drain == wire.DrainNone.String() || n.Drain == wire.DrainLeads.String())
}

// logList names logs for people.
func logList(names []string) string {
	const most = 6
	switch n := len(names); {
	case n == 1 && names[0] == "system":
		return "the system log"
	case n == 1:
		return "log " + names[0]
	case n > most:
		return fmt.Sprintf("each of %d logs (%s and %d more)", n, strings.Join(names[:most], ", "), n-most)
	default:
		return "each of the logs " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// plural is a number and what is counted.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
