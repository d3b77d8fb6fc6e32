package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWhoMaySayThatItLeadsNoMore: that a node leads no more counts from itself alone, on its connection, at a node
// which raft tells nothing of the log. Clients are told, and the next news of a leader ends it.
func TestWhoMaySayThatItLeadsNoMore(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 4, func(_ int, c *Config) { c.EvictionWindow, c.LogCount = time.Hour, 2 })
	f.placed(4)
	leader := f.nodes[f.leader("h:/x")]
	shard := leader.logOf(leader.groupOf(leader.routes.Load().Resolve("h:/x"))).shard
	host := leader.id.HostID
	var voter, n *Node // which does not lead, and one that has no replica
	for _, x := range f.nodes {
		switch l := x.logs[shard]; {
		case l.local.Load() == nil:
			n = x
		case x != leader && l.toldByRaft():
			voter = x
		}
	}
	f.until("it knows the leader, and reaches it", func() bool {
		return n.leading(shard) == host &&
			n.peer(host) != nil
	})
	_, term := n.leaderOf(shard)
	told := make(chan *wire.Topology, 64)
	_, stop := n.Topology(func(now *wire.Topology) { told <- now })
	defer stop()

	// The log goes on, and so whoever leads it would say so again: nothing but the call in hand says otherwise.
	n.leadsNoMore(shard, term+1, new(otherConn))
	if n.leading(shard) != host || len(told) > 0 {
		t.Error("what another connection says counts")
	}
	n.leadsNoMore(shard, term, n.peer(host))
	if n.leading(shard) != host || len(told) > 0 {
		t.Error("what was said of earlier terms counts")
	}
	voter.leadsNoMore(shard, term+1, voter.peer(host))
	if voter.leading(shard) != host {
		t.Error("it counts where raft tells who leads")
	}

	n.leadsNoMore(shard, term+1, n.peer(host))
	if n.leading(shard) != "" || n.lastLeader(shard) != host {
		t.Errorf("it does not count: %q leads, and %q did last", n.leading(shard), n.lastLeader(shard))
	}
	if len(told) != 1 {
		t.Errorf("clients are told %d times", len(told))
	}
	n.leadsNoMore(shard, term+1, n.peer(host))
	if len(told) != 1 {
		t.Errorf("said twice, clients are told %d times", len(told))
	}
	n.noteLeader(shard, term+1, host)
	if n.leading(shard) != host || n.lastLeader(shard) != "" || n.logs[shard].leaderless() {
		t.Errorf("it leads again: %q leads, and %q did last", n.leading(shard), n.lastLeader(shard))
	}
}

// otherConn is a connection to nobody in particular.
type otherConn struct{}

func (*otherConn) Send([]byte) bool { return false }
func (*otherConn) Unsent() int      { return 0 }
func (*otherConn) Close(error)      {}
