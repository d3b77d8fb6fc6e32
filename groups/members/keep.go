package members

import "time"

// A member's name waits for its data directory while that is away: it restarts, more often
// than not, and whoever comes with its name and an empty disk must not get its replicas
// meanwhile.

// former is a data directory that had a name before this start.
type former struct {
	host  string
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
			had = former{e.rec.HostID, e.since.Add(t.keep)}
		}
	}
	if had.host == "" || had.host == rec.HostID || !now.Before(had.until) {
		return nil
	}
	return keptFor(rec, addr, had.host, had.until.Sub(now))
}

// keepFor makes names wait for the data directories that had them before this start.
func (t *table) keepFor(names map[string]string, keep time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep, t.mu.before = keep, make(map[string]former)
	until := time.Now().Add(keep)
	for node, host := range names {
		t.mu.before[node] = former{host, until}
	}
}

// Kept says that a name waits for another data directory than this one, which is away.
func (m *Members) Kept(nodeID, hostID string) error {
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	if e := m.table.mu.nodes[nodeID]; e != nil && e.alive {
		return nil
	}
	if why := m.table.kept(&Record{NodeID: nodeID, HostID: hostID}, ""); why != nil {
		return why
	}
	return nil
}
