package groups

import "github.com/pathlockd/pathlockd/wire"

// refuses says why an operation is not taken now: none but health while the node
// drains, none that grows the state while the disk is nearly full.
func (n *Node) refuses(op wire.Op) *wire.Error {
	if n.draining.Load() && op != wire.OpHealth {
		return wire.Errorf(wire.Unavailable, "the node is draining; nothing was done, ask another one")
	}
	return n.refusesWrite(op)
}

// refusesWrite is refuses for what a node does for others too: it is about the disk.
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
			"%d requests of this group are under way, at most %d are taken (max_inflight_per_group); nothing was done, try again",
			now-1, n.cfg.MaxInflight)
	}
	return nil
}

// landed counts a request out that admit counted in.
func (n *Node) landed(group uint16) { n.inflight[n.slot(group)].Add(-1) }

// slot is where the requests of a group are counted; those to no single one are
// counted with the system group's.
func (n *Node) slot(group uint16) int { return min(int(group), len(n.inflight)-1) }
