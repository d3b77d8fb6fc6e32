package members

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Fault is why others keep this node out, or why it keeps out itself: another token,
// another cluster, a node id in use, formats, a copied data directory. It is nil when
// nothing of the kind happened in the last minute, or joining worked since. The node
// goes on trying.
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
	m.mu.fault, m.mu.faultAt = err, time.Now()
	m.mu.Unlock()
	if m.warnings.Allow("fault" + err.Error()) {
		m.config.Log.Error("this node is kept out of the cluster", "why", err)
	}
	signal(m.wake)
}

// joined forgets what kept this node out before it joined. That it is superseded does
// not show when it joins: that is forgotten with time.
func (m *Members) joined(began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.fault != nil && m.mu.faultAt.Before(began) && !errors.Is(m.mu.fault, ErrStale) {
		m.mu.fault = nil
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
	case m.toTell <- notice{to: memberlist.Node{Name: n.Name, Addr: slices.Clone(n.Addr), Port: n.Port}, why: why, from: self.NodeID}:
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
