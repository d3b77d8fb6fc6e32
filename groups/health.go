package groups

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/groups/members"
	"github.com/pathlockd/pathlockd/wire"
)

// newIncarnation tells this run of the process from every other.
func newIncarnation() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on supported systems
	}
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// healthWithin is how long a healthy node takes for a round through the system
// group.
const healthWithin = 2 * time.Second

// health says whether the node can serve: after a linearizable round through the
// system group.
func (n *Node) health() wire.Result {
	if n.draining.Load() {
		return wire.Result{Message: "draining"}
	}
	if err := n.refusal.Load(); err != nil {
		return wire.Result{Message: err.Message}
	}
	select {
	case <-n.ready:
	default:
		return wire.Result{Message: fmt.Sprintf("loading: %d logs to go", n.loading.Load())}
	}
	done := make(chan *wire.Error, 1)
	n.read(n.logs[systemShard], &query{what: askAny}, n.clock.Mono(), func(res *wire.Result) { done <- res.Err() })
	select {
	case err := <-done:
		if err != nil {
			return wire.Result{Message: err.Message}
		}
	case <-time.After(healthWithin):
		return wire.Result{Message: fmt.Sprintf("no leader of the system log answered within %v", healthWithin)}
	}
	if n.cluster != nil {
		if err := n.cluster.gossip.Fault(); err != nil && len(n.leaderless()) > 0 {
			return wire.Result{Message: "kept out of the cluster: " + err.Error()}
		}
	}
	for _, shard := range n.leaderless() {
		return wire.Result{Message: fmt.Sprintf("log %d has no leader", shard)}
	}
	return wire.Result{Flag: true, Message: "ready"}
}

// leaderless lists the logs that nobody leads.
func (n *Node) leaderless() (shards []uint64) {
	for shard, l := range n.logs {
		if l.local.Load() != nil {
			if l.lead.Load().leader == 0 {
				shards = append(shards, shard)
			}
		} else if host, _ := n.leaderOf(shard); host == "" {
			shards = append(shards, shard)
		}
	}
	slices.Sort(shards)
	return shards
}

// Health says whether the node can serve, as the health operation does, and if not
// then why.
func (n *Node) Health() (ok bool, detail string) {
	res := n.health()
	return res.Flag, res.Message
}

// WaitReady waits until every log is loaded and led, and says so: false when that
// took longer than the given time, or the node is being closed.
func (n *Node) WaitReady(within time.Duration) bool {
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) && !n.draining.Load() {
		if n.health().Flag && n.allLed() {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// allLed says that this node may propose to every log it leads.
func (n *Node) allLed() bool {
	for _, l := range n.logs {
		if l.isOwn(l.lead.Load().leader) && !l.leads() {
			return false
		}
	}
	return true
}

// diskEvery is how often the free space is looked at.
const diskEvery = time.Second

// diskLoop refuses writes while the disk is nearly full: once a write to the raft
// log fails there is nothing left but to stop.
func (n *Node) diskLoop() {
	t := time.NewTicker(diskEvery)
	defer t.Stop()
	for {
		n.lookAtDisk()
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
	}
}

func (n *Node) lookAtDisk() {
	free, err := freeBytes(n.cfg.DataDir)
	var refusal *wire.Error
	switch {
	case err != nil:
		n.log.Error("cannot tell the free space of data_dir", "error", err)
		return
	case free < n.cfg.DiskReserve:
		refusal = wire.Errorf(wire.Unavailable,
			"data_dir has %d MiB free, below disk_reserve_bytes (%d MiB): writes are refused until there is room; reads, releases and, above half of it, renewals go on",
			free>>20, n.cfg.DiskReserve>>20)
	}
	n.starved.Store(free < n.cfg.DiskReserve/2)
	if was := n.refusal.Swap(refusal); (was == nil) != (refusal == nil) {
		if refusal != nil {
			n.log.Error("refusing writes: the disk is nearly full", "free_bytes", free, "disk_reserve_bytes", n.cfg.DiskReserve)
		} else {
			n.log.Info("taking writes again: the disk has room", "free_bytes", free)
		}
	}
}

func freeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

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
		out.LogOf[g] = shard - firstLogShard
	}
	for i := range out.Leaders {
		if host, _ := n.leaderOf(firstLogShard + uint64(i)); host != "" {
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
		if s.HostID != n.id.HostID && s.Alive && s.State != members.Leaving && s.NativeAddr != "" {
			out = append(out, wire.NodeAddr{NodeID: s.NodeID, Native: s.NativeAddr})
		}
	}
	slices.SortFunc(out, func(a, b wire.NodeAddr) int { return strings.Compare(a.NodeID, b.NodeID) })
	return out
}

// NodeID is the node's name.
func (n *Node) NodeID() string { return n.id.NodeID }

// ClusterID tells the cluster from every other.
func (n *Node) ClusterID() string { return n.id.ClusterID }

// Starts is how often the node was started on its data directory, this time too. It
// grows with each start, before anybody can see anything of the new run.
func (n *Node) Starts() uint64 { return n.id.Starts }
