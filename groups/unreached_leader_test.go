package groups

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestVoterWithoutAWay: a voter cannot connect to the node that leads its log, while raft's messages go on. No request
// passes there: it is not ready, and lets nobody wait who does not want to, once that has lasted for as long as an
// election takes. Until then it is ready, as connections are made anew. Once there is a way again so it is.
func TestVoterWithoutAWay(t *testing.T) {
	t.Parallel()
	w := new(oneWay)
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 1, time.Minute
	})
	f.settle(3)
	led := f.leader("h:/x")
	at := (led + 1) % 3
	n, leader := f.nodes[at], f.nodes[led]
	l := n.logs[rows.FirstLog]
	f.until("it has a vote, and raft has told it of its leader", func() bool { return l.toldByRaft() && !l.deserted() })
	r := f.rigOn(at)
	r.session().must(write("before", "h:/x", time.Hour))

	w.set(n.id.NodeID, leader.id.NodeID, false)
	began := n.clock.Mono()
	n.cluster.conn(leader.id.HostID).Close(io.ErrUnexpectedEOF)
	f.until("it has no way there", func() bool { return n.cluster.conn(leader.id.HostID) == nil })
	early := r.session().start(r.next.Add(1), noQueue("h:/early"))
	f.until("it has no leader", l.leaderless)
	if d := n.clock.Mono() - began; d < n.electedWithin() {
		t.Errorf("it has no leader %v after a connection was lost, which may be made anew", d)
	}
	r.refusedInTime("h:/y")
	select {
	case res := <-early.done:
		if res.Code == wire.OK {
			t.Errorf("what was asked at once: %v %s", res.Code, res.Message)
		}
	case <-time.After(15 * time.Second):
		t.Error("what was asked at once waits for a leader that is not reached")
	}
	if !leader.logs[rows.FirstLog].leads() || l.deserted() {
		t.Fatal("this shows nothing: the leadership moved")
	}
	if h := n.health(); h.Flag || !strings.Contains(h.Message, "that this node reaches") {
		t.Errorf("health is %v %q, and no write passes", h.Flag, h.Message)
	}
	for _, x := range n.clusterStatus().Logs {
		if x.Log == rows.FirstLog && (x.Leader != "" || x.LastLeader != leader.id.NodeID) {
			t.Errorf("the status names %q as leader, and %q as the one that it does not reach", x.Leader, x.LastLeader)
		}
	}

	w.set("", "", false)
	f.until("it is ready again", func() bool { return n.health().Flag })
	if res := r.session().ask(noQueue("h:/z")); res.Code != wire.OK {
		t.Errorf("once there is a way: %v %s", res.Code, res.Message)
	}
}

// TestReachedLater: a node was not reached for long, and is elected as it comes back. Who does not reach it yet takes
// it for the leader all the same, for as long as an election takes.
func TestReachedLater(t *testing.T) {
	f := apart(t, nil)
	n := f.nodes[1] // has no replica
	const shard, host = rows.FirstLog, "another"
	l := n.logs[shard]
	n.cluster.mu.Lock()
	n.cluster.reach[host] = reach{since: n.clock.Mono() - time.Hour}
	n.cluster.mu.Unlock()
	_, term := n.leaderOf(shard)
	n.noteLeader(shard, term+100, host)
	if d, why := n.noLeader(shard); d > n.electedWithin() || l.unled() != nil {
		t.Errorf("who was just elected counts as lost for %v: %s", d, why)
	}
	f.until("it counts as lost later", func() bool { return l.unled() != nil })
	n.noteLeader(shard, term+101, host)
	if l.unled() == nil {
		t.Error("the same one counts as just elected in each term, and is not reached")
	}
}
