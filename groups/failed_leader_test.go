package groups

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestFailedLeader: what a node led whose process died is led by others long before an
// election timeout has passed.
func TestFailedLeader(t *testing.T) {
	t.Parallel()
	const timeout = 30 * time.Second
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.ElectionMin, c.Heartbeat = timeout, 200*time.Millisecond })
	f.settle(3)
	host := f.nodes[0].id.HostID
	f.until("node 0 leads something", func() bool { return len(f.nodes[0].ledLogs()) > 0 })
	began := time.Now()
	if err := f.nodes[0].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[0] = nil
	f.each(2, func(n *Node) {
		f.until(n.id.NodeID+" knows other leaders", func() bool {
			for _, shard := range n.id.Logs() {
				if leader, _ := n.leaderOf(shard); leader == "" || leader == host {
					return false
				}
			}
			return true
		})
	})
	if took := time.Since(began); took >= timeout {
		t.Errorf("it took %v, as long as an election timeout", took)
	}
	c := newClusterClient(f.nodes[1])
	for _, path := range []string{"h:/a/x", "h:/b/x", "h:/c/x", "h:/d/x", "h:/e/x"} {
		c.mustAcquire(t, path, "o")
	}
}

// TestStandsForTheDeadAlone: a node whose process has died is started again, and is elected, while others stand for
// what it led. They leave it the leader: its term is a later one.
func TestStandsForTheDeadAlone(t *testing.T) {
	t.Parallel()
	const host = "raft host id of another node"
	stood := make(chan struct{}, standTimes)
	var instead atomic.Pointer[func()]
	r := newRig(t, standsIn(&instead))
	n, shard := r.node, uint64(rows.FirstLog)
	eventually(t, "it leads", n.logs[shard].leads)
	count := func() { stood <- struct{}{} }
	instead.Store(&count)
	n.noteLeader(shard, 98, host)
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.stand(shard, host, "pathlockd-9")
	}()
	<-stood
	n.noteLeader(shard, 99, host)
	<-over
	if again := len(stood); again > 0 {
		t.Errorf("it stands %d times more", again)
	}
}

// TestDied: a port that nobody listens on is a dead process's, one that somebody listens
// on is not.
func TestDied(t *testing.T) {
	n := &Node{stop: make(chan struct{})}
	if addr := freeAddr(t); !n.died(addr) {
		t.Errorf("%s refuses and is taken for alive", addr)
	}
	r := newRig(t, func(c *Config) { c.Token, c.GossipAddr = testToken, "127.0.0.1:0" })
	if addr := r.node.cluster.mesh.Addr(); n.died(addr) {
		t.Errorf("%s listens and is taken for dead", addr)
	}
}
