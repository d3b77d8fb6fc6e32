package gossip

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Fault is why others keep this node out, or why it keeps out itself: another token, no certificates by which each
// takes the other, another cluster, a node id in use or kept for another, formats, a copied data directory. It is nil
// when nothing of the kind happened in the last minute, or joining worked since. The node goes on trying.
func (m *Members) Fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.fault == nil || time.Since(m.mu.faultAt) > faultTime {
		return nil
	}
	return m.mu.fault
}

// fault notes why this node is kept out.
func (m *Members) fault(err error) {
	m.mu.Lock()
	now := time.Now()
	switch {
	case !errors.Is(err, ErrNodeID):
		m.mu.clash = time.Time{}
	case m.mu.clash.IsZero() || now.Sub(m.mu.faultAt) > faultTime:
		m.mu.clash = now
	}
	m.mu.fault, m.mu.faultAt = err, now
	m.mu.Unlock()
	if m.warnings.Allow("fault" + err.Error()) {
		m.config.Log.Error("this node is "+m.Condition(err), "why", err)
	}
	signal(m.wake)
}

// Clash is Fault when that is that the node id is in use, and has been for longer than a
// death goes unnoticed: it is no former self of this node that has it.
func (m *Members) Clash() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.fault == nil || m.mu.clash.IsZero() || m.mu.faultAt.Sub(m.mu.clash) < m.timing.clash {
		return nil
	}
	return m.mu.fault
}

// Condition is what a fault makes of this node, for people. Between a member and a node
// with another token, cluster or format, who strayed is not this node's to say.
func (m *Members) Condition(fault error) string {
	if m.table.self().State != Joining {
		for _, reason := range []error{ErrToken, ErrTLS, ErrCluster, ErrFormat, ErrRecord} {
			if errors.Is(fault, reason) {
				return "at odds with another one, and one of the two strayed"
			}
		}
	}
	return "kept out of the cluster"
}

// joined forgets what kept this node out before it joined. That it is superseded, or its
// name is kept for another, does not show when it joins: that is forgotten with time.
func (m *Members) joined(began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.fault != nil && m.mu.faultAt.Before(began) && !errors.Is(m.mu.fault, ErrStale) &&
		!errors.Is(m.mu.fault, ErrKept) {
		m.mu.fault, m.mu.clash = nil, time.Time{}
		signal(m.wake)
	}
}

// refused logs a refusal, and has the node told that it is about.
func (m *Members) refused(n *memberlist.Node, why *refusal) {
	if errors.Is(why, errAsking) || !m.notices.Allow(n.Name+why.reason.Error()) {
		return
	}
	self := m.table.self()
	// Former starts are heard of for a while after each restart. If one is alive, it
	// says so itself when it is told.
	if !errors.Is(why, ErrStale) && m.warnings.Allow(n.Name+why.reason.Error()) {
		m.config.Log.Warn("refused a node", "reason", why.reason, "why", why.text)
	}
	select {
	case m.toTell <- notice{to: memberlist.Node{Name: n.Name, Addr: slices.Clone(n.Addr), Port: n.Port}, why: why,
		from: self.NodeID}:
	default: // the next refusal tells
	}
}

// told takes in that this node is refused.
func (m *Members) told(err error) {
	if errors.Is(err, ErrCluster) || errors.Is(err, ErrFormat) || errors.Is(err, ErrRecord) {
		// Somebody else strayed, when this node has its cluster about it, or is it.
		founder := m.table.self().State != Joining && len(m.config.Seeds) == 0
		if founder || !m.table.alone() {
			if m.warnings.Allow(err.Error()) {
				m.config.Log.Warn("a node does not accept this one", "why", err)
			}
			return
		}
	}
	m.fault(err)
}

// tell sends notices.
func (m *Members) tell() {
	defer m.wg.Done()
	for {
		select {
		case <-m.ctx.Done():
			return
		case n := <-m.toTell:
			if err := m.list.SendReliable(&n.to, n.encode()); err != nil {
				m.config.Log.Debug("a refused node could not be told", "peer", n.to.Address(), "error", err)
			}
		}
	}
}
