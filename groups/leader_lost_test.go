package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// noQueue is a write that does not want to wait.
func noQueue(path string) *wire.Request {
	req := write("o", path, time.Hour)
	req.Flags |= wire.FlagNoQueue
	return req
}

// refusedInTime asks a node for what does not want to wait, which is refused as the log has no leader.
func (r *rig) refusedInTime(path string) {
	r.t.Helper()
	o := r.session().start(r.next.Add(1), noQueue(path))
	select {
	case res := <-o.done:
		if res.Code != wire.Unavailable {
			r.t.Errorf("%s is answered %v: %s", path, res.Code, res.Message)
		}
	case <-time.After(r.node.electedWithin() + 15*time.Second):
		r.t.Errorf("who does not want to wait waits for a leader of %s; without one are %v", path, r.node.leaderless())
	}
}

// deafLearner is a network by which raft's messages reach a node until that knows who leads a log.
type deafLearner struct {
	network
	from, to *Node
}

func (w *deafLearner) Outgoing(p link.Passage) link.Fate {
	fate := w.network.Outgoing(p)
	w.mu.Lock()
	from, to := w.from, w.to
	w.mu.Unlock()
	if from == nil || p.From != from.id.NodeID || p.To != to.id.NodeID ||
		p.Kind != link.Messages && p.Kind != link.Snapshots {
		return fate
	}
	fate.Drop = fate.Drop || to.logs[rows.FirstLog].lead.Load().leader != 0
	return fate
}

// TestLearnerOfADeadLeader: raft told a learner who leads the log, and says nothing when that one dies. The learner's
// node knows it all the same, as the connection to it is lost.
func TestLearnerOfADeadLeader(t *testing.T) {
	t.Parallel()
	w := new(deafLearner)
	change := func(_ int, c *Config) {
		c.Faults, c.LogCount, c.EvictionWindow, c.RequestTimeout = w, 1, time.Hour, time.Minute
	}
	f := newLocalCluster(t, 2, change)
	n, r := f.nodes[1], f.rigOn(1)
	f.until("the forwarder is ready", func() bool { return n.health().Flag })
	f.until("a write passes", func() bool { return r.session().ask(noQueue("h:/x")).Code == wire.OK })
	w.mu.Lock()
	w.from, w.to = f.nodes[0], n
	w.mu.Unlock()
	f.grow(change)
	l := n.logs[rows.FirstLog]
	f.until("it has a replica, and raft has told it of its leader",
		func() bool { return l.local.Load() != nil && l.lead.Load().leader != 0 })
	if n.lookForVotes(); l.local.Load().Voting.Load() {
		t.Fatal("this shows nothing: it votes")
	}
	f.kill(&w.network, 0)
	f.until("it knows that nobody leads the log", func() bool { return slices.Contains(n.leaderless(), rows.FirstLog) })
	r.refusedInTime("h:/y")
}

// TestLeaderNeverReached: a node that forwards is started again, and cannot connect to the leader any more, which
// connects to it as ever (TestOneWay).
func TestLeaderNeverReached(t *testing.T) {
	t.Parallel()
	w := new(oneWay)
	f := apart(t, func(_ int, c *Config) { c.Faults, c.EvictionWindow, c.RequestTimeout = w, time.Hour, time.Minute })
	leader := f.nodes[0]
	f.rigOn(1).session().must(write("before", "h:/x", time.Hour))
	w.set(f.nodes[1].id.NodeID, leader.id.NodeID, false)
	if err := f.nodes[1].Close(time.Second); err != nil {
		t.Fatal(err)
	}
	f.nodes[1] = nil
	f.start(1)
	n := f.nodes[1]
	f.until("it is told who leads", func() bool {
		host,
			_ := n.leaderOf(rows.FirstLog)
		return host == leader.id.HostID
	})
	f.until("it has no way there", func() bool { return n.cluster.conn(leader.id.HostID) == nil })
	f.rigOn(1).refusedInTime("h:/y")
}

// TestLastVoterLeadsNoMore: a log has lost the majority of its voters, and is asked for at a node that knows as its
// leader the one that is left.
func TestLastVoterLeadsNoMore(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 5, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 2, time.Minute
	})
	f.placed(5)
	const path = "h:/x"
	leads := f.leader(path)
	logOf := func(n *Node) *shardLog { return n.logOf(n.groupOf(n.routes.Load().Resolve(path))) }
	shard := logOf(f.nodes[leads]).shard
	last, others, without := f.nodes[leads], []int(nil), -1
	for i, n := range f.nodes {
		switch m := n.logs[shard].local.Load(); {
		case m == nil:
			without = i
		case i != leads:
			others = append(others, i)
		}
	}
	if len(others) != 2 || without < 0 || !last.logs[shard].leads() {
		t.Fatalf("others with replicas %v, %d without", others, without)
	}
	n := f.nodes[without]
	r := f.rigOn(without)
	f.until("a write passes", func() bool { return r.session().ask(noQueue(path)).Code == wire.OK })
	name := f.nodes[others[0]].id.NodeID
	f.kill(w, others[0])
	f.kill(w, others[1])
	f.until("the last voter knows that nobody leads", func() bool { return last.logs[shard].leaderless() })
	r.refusedInTime(path)
	if h := n.health(); h.Flag {
		t.Errorf("health is %q, and log %d has no leader", h.Message, shard)
	}
	for _, x := range n.clusterStatus().Logs {
		if x.Log == shard && x.Leader != "" {
			t.Errorf("the status names %s as leader", x.Leader)
		}
	}
	for _, x := range last.clusterStatus().Logs {
		if x.Log == shard && (x.Leader != "" || x.LastLeader != last.id.NodeID) {
			t.Errorf("the status of the last voter names %q as leader, and %q as the last one", x.Leader, x.LastLeader)
		}
	}
	w.set(name, false)
	f.start(others[0])
	f.until("the log has a leader again", func() bool { return r.session().ask(noQueue(path+"/y")).Code == wire.OK })
}
