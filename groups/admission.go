package groups

import (
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// refuses says why a request is not taken now. While the node drains none is, but for its health, and for what takes
// an earlier acquire back: that is carried out yet if it is under way, and nobody may hear of it.
func (n *Node) refuses(c *wire.Call) *wire.Error {
	if !n.draining.Load() || c.Op == wire.OpHealth || c.Op == wire.OpRelease && c.Req.Target != 0 {
		return nil
	}
	return wire.Errorf(wire.Unavailable, "the node is draining; nothing was done, ask another one")
}

// refusesIn says why an operation in a log, or in any for nil, is not taken now: none
// that grows the state while the disk is nearly full. Where another node leads, that is
// about its disk: this one has to write what the others replicate anyhow.
func (n *Node) refusesIn(op wire.Op, l *shardLog) *wire.Error {
	err := n.refusesWrite(op)
	if err == nil || l != nil && n.ledElsewhere(l.shard) {
		return nil
	}
	if l == nil && !slices.ContainsFunc(n.id.Logs(), func(shard uint64) bool { return !n.ledElsewhere(shard) }) {
		return nil
	}
	return err
}

// ledElsewhere says that another node leads a log; while nobody does, that another one
// could that has room.
func (n *Node) ledElsewhere(shard uint64) bool {
	host, _ := n.leaderOf(shard)
	return host != n.id.HostID && (host != "" || n.roomElsewhere(shard))
}

// refusesWrite says why the disk of the node that leads does not allow an operation.
func (n *Node) refusesWrite(op wire.Op) *wire.Error {
	if spec, _ := op.Spec(); spec.Kind == wire.KindRead {
		return nil
	}
	switch op {
	case wire.OpRelease, wire.OpReleaseAll, wire.OpForceRelease, wire.OpClearWaitEdge:
		return nil // these make room
	case wire.OpRenew, wire.OpBind:
		if !n.starved.Load() {
			return nil // nobody loses a lock while there is any room
		}
	}
	return n.refusal.Load()
}

// admit counts a request in, unless too many of its group are under way.
func (n *Node) admit(group uint16) *wire.Error {
	count := &n.inflight[n.slot(group)]
	if now := count.Add(1); int(now) > n.cfg.MaxInflight {
		count.Add(-1)
		return wire.Errorf(wire.Unavailable,
			"%d requests of this group are under way, at most %d are taken (max_inflight_per_group); nothing was "+
				"done, try again",
			now-1, n.cfg.MaxInflight)
	}
	return nil
}

// countedIn says that a command takes a place of those that a group has (max_inflight_per_group). What notes that a
// call is carried out, or over, takes none: the call was let in, and one of these is not to be refused when the other
// is not.
func countedIn(req *wire.Request) bool {
	ends := req.Kinds == engine.ClaimDone || req.Kinds == engine.ClaimYields
	return req.Op != wire.OpResume && (req.Op != wire.OpClaim || !ends)
}

// countOut counts a request out that admit counted in.
func (n *Node) countOut(group uint16) { n.inflight[n.slot(group)].Add(-1) }

// slot is where the requests of a group are counted; those to no single one are
// counted with the system group's.
func (n *Node) slot(group uint16) int { return min(int(group), len(n.inflight)-1) }
