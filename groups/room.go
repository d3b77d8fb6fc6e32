package groups

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// A log is refused writes when its leader is short of disk space, though the others may
// have room. So a node that is short says so (gossip.Shortage), and whoever decides who
// leads passes it over: its own leaderships go to voters that have room, it gets none
// from balancing, it stands last where a leader's process has died, and takes over only
// what its leader gives it for want of anybody else. What raft's own elections give it
// nevertheless, it hands on. It still has a vote in every log that it had, and writes
// what they replicate: others could not do without that.
//
// If everybody is short, everybody leads on. A node that has room again says so only when
// it has had more than enough for a while, and gets its leaderships back as balancing has
// it: a disk about the reserve moves them once, and not to and fro.

const (
	// roomMargin is which part of the reserve has to be free above it, for
	// stability_window_secs, before the node has room again.
	roomMargin = 4
	// roomStep is which part of the reserve the free space has to change by for that to
	// be told while the node is short.
	roomStep = 8
)

// room is what a node knows of its disk.
type room struct {
	mu       sync.Mutex
	shortage gossip.Shortage
	told     gossip.Shortage // to the others
	since    time.Duration   // since when there is more than enough, -1: there is not
}

// tellRoom takes note of how much space is free, and tells the others whether that is too
// little.
func (n *Node) tellRoom(free uint64) {
	r := &n.room
	r.mu.Lock()
	defer r.mu.Unlock()
	now := n.clock.Mono()
	if r.look(now, free, n.cfg.DiskReserve, n.cfg.StabilityWindow) {
		if r.shortage.Is() {
			n.log.Warn("others that have room are to lead in this node's place", "free_bytes", free,
				"disk_reserve_bytes", n.cfg.DiskReserve)
		} else {
			n.log.Info("leading again where it belongs: the disk has had room for long enough", "free_bytes", free)
		}
	}
	if r.told == r.shortage || n.cluster == nil || n.cluster.gossip == nil {
		return
	}
	if err := n.cluster.gossip.Update(func(rec *gossip.Record) { rec.Shortage = r.shortage }); err != nil {
		n.log.Debug("the others do not hear how much space is free", "error", err)
		return
	}
	r.told = r.shortage
}

// look judges the free space at a time, and says whether the node is short since, or has
// room again. It is called under the lock.
func (r *room) look(now time.Duration, free, reserve uint64, window time.Duration) (changed bool) {
	was := r.shortage
	enough := reserve + reserve/roomMargin
	if enough < reserve {
		enough = math.MaxUint64
	}
	switch {
	case reserve == 0:
		r.shortage = gossip.Shortage{}
		return was.Is()
	case free < reserve:
		r.since = -1
	case !was.Is():
		return false
	case free < enough:
		r.since = -1
	case r.since < 0:
		r.since = now
	}
	if r.since >= 0 && now-r.since >= window {
		r.shortage = gossip.Shortage{}
		return true
	}
	// What is told is not told anew for every byte.
	moved := max(free, was.Free) - min(free, was.Free)
	if !was.Is() || moved > reserve/roomStep || (free < reserve) != (was.Free < reserve) {
		r.shortage = gossip.Shortage{Free: free, Reserve: reserve}
	}
	return !was.Is()
}

// shortage is what this node tells of its disk.
func (n *Node) shortage() gossip.Shortage {
	n.room.mu.Lock()
	defer n.room.mu.Unlock()
	return n.room.shortage
}

// short says whether this node is short of disk space.
func (n *Node) short() bool { return n.shortage().Is() }

// shortAt says whether the node of a raft host id is, as it told last.
func (n *Node) shortAt(host string) bool {
	s, ok := n.cluster.sighting(host)
	return ok && s.Shortage.Is()
}

// roomyFirst puts the nodes that are short of disk space behind the others.
func (n *Node) roomyFirst(nodes []string) []string {
	short := func(node string) bool {
		s, ok := n.cluster.byName(node)
		return ok && s.Shortage.Is()
	}
	rest := slices.DeleteFunc(slices.Clone(nodes), short)
	for _, node := range nodes {
		if short(node) {
			rest = append(rest, node)
		}
	}
	return rest
}

// roomElsewhere says whether another node that a log belongs on can lead it.
func (n *Node) roomElsewhere(shard uint64) bool {
	if n.cluster == nil {
		return false
	}
	n.plans.mu.Lock()
	nodes := n.plans.layout[shard]
	n.plans.mu.Unlock()
	return slices.ContainsFunc(nodes, func(node string) bool {
		s, ok := n.cluster.byName(node)
		return ok && node != n.id.NodeID && s.Alive && s.State == gossip.Member && !s.Shortage.Is()
	})
}
