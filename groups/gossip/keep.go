package gossip

import "time"

// A member's name waits for its data directory while that is away: it restarts, more often
// than not, and whoever comes with its name and an empty disk must not get its replicas
// meanwhile. Who comes at the raft address that the member had is no other: two processes
// do not listen at one address, so the member is gone, and its disk is another. That is not
// so of a name in DNS, which may lead to a new machine while the old one is only cut off
// (a pod that was deleted by force). It is safe all the same: raft knows the new disk's
// replicas under new ids, and those of the old one vote as themselves until they are removed.

// Holder is whose a name is: a data directory, and where it spoke raft.
type Holder struct {
	HostID, RaftAddr string
}

// former is a data directory that had a name before this start.
type former struct {
	Holder
	until time.Time // when the name waits for it no more; monotonic
}

// kept refuses another data directory under the name of a member that is away, or that was
// not seen yet since this start. Caller holds mu.
func (t *table) kept(rec *Record, addr string) *refusal {
	now := time.Now()
	var had former
	if rec.State < Member {
		had = t.mu.before[rec.NodeID] // a member replaced it while this node was away
	}
	if e := t.mu.nodes[rec.NodeID]; e != nil {
		had = former{}
		if e.rec.State >= Member {
			had = former{Holder{e.rec.HostID, e.rec.RaftAddr}, e.since.Add(t.keep)}
		}
	}
	if had.HostID == "" || had.HostID == rec.HostID || !now.Before(had.until) {
		return nil
	}
	if had.RaftAddr != "" && had.RaftAddr == rec.RaftAddr {
		return nil
	}
	return keptFor(rec, addr, had.Holder, had.until.Sub(now))
}

// keepFor makes names wait for the data directories that had them before this start.
func (t *table) keepFor(names map[string]Holder, keep time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep, t.mu.before = keep, make(map[string]former)
	until := time.Now().Add(keep)
	for node, h := range names {
		t.mu.before[node] = former{h, until}
	}
}

// Kept says that a name waits for another data directory than this one, which is away, as far as can be said without
// knowing where this one speaks raft: Records that come by gossip tell that, and who was let in by it is not refused
// here. Of one that is alive with another data directory it says so: who asks may not have taken note of it yet.
func (m *Members) Kept(nodeID, hostID string) error {
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	if e := m.table.mu.nodes[nodeID]; e != nil && e.alive {
		if e.rec.HostID != hostID {
			return refuse(ErrNodeID, "node_id %s of data directory %s is used by data directory %s at %s: give one "+
				"of them another node_id",
				nodeID, hostID, e.rec.HostID, e.gossip)
		}
		return nil
	}
	if why := m.table.kept(&Record{NodeID: nodeID, HostID: hostID}, ""); why != nil {
		return why
	}
	return nil
}
