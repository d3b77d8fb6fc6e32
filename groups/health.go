package groups

import (
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

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
			return wire.Result{Message: n.cluster.gossip.Standing(err) + ": " + err.Error()}
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
