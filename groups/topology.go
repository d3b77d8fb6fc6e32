package groups

import (
	"slices"
	"strings"
	"sync"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// topology tells clients who leads what.
type topology struct {
	mu       sync.Mutex
	version  uint64
	watchers map[uint64]func(*wire.Topology)
	next     uint64
}

// Topology implements wire.Handler.
func (n *Node) Topology(watch func(*wire.Topology)) (*wire.Topology, func()) {
	t := &n.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	stop := func() {}
	if watch != nil {
		if t.watchers == nil {
			t.watchers = make(map[uint64]func(*wire.Topology))
		}
		t.next++
		id := t.next
		t.watchers[id] = watch
		stop = func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.watchers, id)
		}
	}
	return n.currentTopology(), stop
}

// topologyChanged tells those who watch.
func (n *Node) topologyChanged() {
	t := &n.topology
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	if len(t.watchers) == 0 {
		return
	}
	now := n.currentTopology()
	for _, watch := range t.watchers {
		watch(now)
	}
}

// currentTopology is made under the topology's lock.
func (n *Node) currentTopology() *wire.Topology {
	routes := n.routes.Load()
	out := &wire.Topology{
		Version: n.topology.version, Self: n.id.NodeID, GroupLogs: uint64(n.id.GroupCount),
		Nodes:   n.addresses(),
		Leaders: make([]string, n.id.LogCount), LogOf: make([]uint64, len(n.homes)),
		Segments: uint64(routes.Segments), Roots: routes.TopologyRoots(),
	}
	for g, shard := range n.homes {
		out.LogOf[g] = shard - rows.FirstLog
	}
	for i := range out.Leaders {
		if host := n.leading(rows.FirstLog + uint64(i)); host != "" {
			out.Leaders[i] = n.nodeOf(host)
		}
	}
	return out
}

// addresses lists where clients reach the nodes that are there, this one included.
func (n *Node) addresses() []wire.NodeAddr {
	own := wire.NodeAddr{NodeID: n.id.NodeID, Native: n.cfg.NativeAddr}
	if n.cluster == nil {
		return []wire.NodeAddr{own}
	}
	out := []wire.NodeAddr{own}
	for _, s := range n.cluster.sightings() {
		if s.HostID != n.id.HostID && s.Alive && s.State != gossip.Leaving && s.NativeAddr != "" {
			out = append(out, wire.NodeAddr{NodeID: s.NodeID, Native: s.NativeAddr})
		}
	}
	slices.SortFunc(out, func(a, b wire.NodeAddr) int { return strings.Compare(a.NodeID, b.NodeID) })
	return out
}
