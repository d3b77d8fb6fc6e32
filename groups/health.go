package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
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
	if unled := n.leaderless(); len(unled) > 0 {
		if n.cluster != nil {
			if err := n.cluster.gossip.Fault(); err != nil {
				return wire.Result{Message: n.cluster.gossip.Condition(err) + ": " + err.Error()}
			}
		}
		_, why := n.noLeader(unled[0])
		return wire.Result{Message: why}
	}
	done := make(chan *wire.Error, 1)
	n.read(n.logs[rows.SystemLog], &replica.Query{What: replica.AskAny}, n.clock.Mono(),
		func(res *wire.Result) { done <- res.Err() })
	select {
	case err := <-done:
		if err != nil {
			return wire.Result{Message: err.Message}
		}
	case <-time.After(healthWithin):
		return wire.Result{Message: fmt.Sprintf("no leader of the system log answered within %v", healthWithin)}
	}
	for _, shard := range n.id.Logs() {
		if d := n.logs[shard].stalled(); d > 0 {
			return wire.Result{Message: fmt.Sprintf("log %d takes no writes: this node leads it, and what it "+
				"proposed %d ms ago is not applied", shard, d.Milliseconds())}
		}
	}
	return wire.Result{Flag: true, Message: "ready"}
}

// leaderless lists the logs that nobody leads.
func (n *Node) leaderless() (shards []uint64) {
	for _, shard := range n.id.Logs() {
		if n.logs[shard].leaderless() {
			shards = append(shards, shard)
		}
	}
	return shards
}

// leaderless says that nobody leads the log, as far as is known here, or nobody that this node reaches. Raft may go on
// where requests do not pass, and tells a voter itself when its leader is gone: a lost connection says nothing to it
// for as long as an election takes, so that it is ready all the time while one is made anew.
func (l *shardLog) leaderless() bool {
	switch {
	case l.deserted():
		return true
	case l.mine() != 0:
		return false
	}
	_, since, gone := l.unreached()
	if l.toldByRaft() {
		return gone && l.clock.Mono()-since >= l.node.electedWithin()
	}
	return gone || l.node.leading(l.shard) == ""
}

// deserted says that nobody leads the log, as raft tells this node.
func (l *shardLog) deserted() bool { return l.toldByRaft() && l.lead.Load().leader == 0 }

// unreached says that this node has no connection to the one that leads the log, as far as is known here, and since
// when it led and had none.
func (l *shardLog) unreached() (host string, since time.Duration, gone bool) {
	n := l.node
	n.leaders.mu.Lock()
	i := n.leaders.by[l.shard]
	n.leaders.mu.Unlock()
	since, gone = n.unreached(i.host)
	return i.host, max(since, i.since), gone
}

// toldByRaft says that raft tells this node who leads the log, and when nobody does. A replica without a vote is not
// told that: raft's messages may not reach it while its log is led, and it takes no silence of a leader for its end.
// Its leader says so, as it does to nodes that have no replica, and is believed for as long as this node reaches it.
func (l *shardLog) toldByRaft() bool {
	m := l.local.Load()
	return m != nil && m.Voting.Load()
}

// unreached says that there is no connection to another node, and since when: the end of the last one, or since it was
// heard of (expects).
func (n *Node) unreached(host string) (since time.Duration, gone bool) {
	if n.cluster == nil || host == n.id.HostID {
		return 0, false
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	r, ok := n.cluster.reach[host]
	return r.since, ok && !r.open
}

// electedWithin is how long a log may be without a leader before it is not expected to have
// one in a moment: an election takes one to two timeouts, and may have to be held again.
func (n *Node) electedWithin() time.Duration { return 4 * n.cfg.ElectionMin }

// unled refuses what is not to wait for a leader, if the log has had none for longer than
// an election takes.
func (l *shardLog) unled() *wire.Error {
	if !l.leaderless() {
		return nil
	}
	d, why := l.node.noLeader(l.shard)
	if d < l.node.electedWithin() {
		return nil
	}
	return wire.Errorf(wire.Unavailable, "%s; nothing was done", why)
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
		if n.health().Flag {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
