package groups

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAssertWhileAnotherLogHasNoLeader: what is about an owner wherever it is cannot be
// answered then, since nobody can say that the owner is not there; what names namespaces
// is, when theirs have one.
func TestAssertWhileAnotherLogHasNoLeader(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 5, func(_ int, c *Config) {
		c.Faults, c.LogCount, c.RequestTimeout, c.EvictionWindow = w, 8, 3*time.Second, time.Hour
	})
	f.placed(5)
	// Of five nodes two go that are two of the three voters of some log, and not of the
	// system log. What is asked, the third one is: it has a replica, and nobody leads it.
	hosts := func(i int, shard uint64) bool { return f.nodes[i].logs[shard].local.Load() != nil }
	var down []int
	up := -1
	for i := range f.nodes {
		for j := range i {
			for shard := range f.nodes[0].logs {
				if len(down) > 0 || !hosts(i, shard) || !hosts(j, shard) || hosts(i, systemShard) && hosts(j, systemShard) {
					continue
				}
				down = []int{i, j}
				up = slices.IndexFunc(f.nodes, func(n *Node) bool { k := slices.Index(f.nodes, n); return k != i && k != j && hosts(k, shard) })
			}
		}
	}
	if up < 0 {
		t.Fatal("no two nodes are a majority of a log and not of the system log")
	}
	n := f.nodes[up]
	var gone, there []string // namespaces; of those that are there, each in another log
	seen := make(map[uint64]bool)
	for i := range 200 {
		ns := fmt.Sprintf("h:/n%d", i)
		shard := n.logOf(n.groupOf(ns)).shard
		switch {
		case hosts(down[0], shard) && hosts(down[1], shard):
			if hosts(up, shard) {
				gone = append(gone, ns)
			}
		case !seen[shard]:
			seen[shard] = true
			there = append(there, ns)
		}
	}
	if len(there) < 2 || len(gone) == 0 {
		t.Fatalf("%v keep a leader, %v lose theirs", there, gone)
	}
	there = there[:2]
	r := f.rigOn(up)
	c := r.session()
	for _, ns := range there {
		f.until("it is locked", func() bool {
			res := c.ask(&wire.Request{Op: wire.OpAcquire, Owner: "alice", TTLMillis: 3_600_000, Token: 77, Locks: []wire.LockRequest{{Path: ns + "/x"}}})
			return res.Code == wire.OK
		})
	}
	for _, i := range down {
		f.kill(w, i)
	}
	lost := n.logOf(n.groupOf(gone[0])).shard
	f.until("nobody leads the log", func() bool { return n.logs[lost].lead.Load().leader == 0 })
	one := func(ns ...string) *wire.Request {
		req := &wire.Request{Op: wire.OpAssertFencing, Owner: "alice", Token: 77}
		for _, n := range ns {
			req.Paths = append(req.Paths, n+"/x")
		}
		return req
	}
	for _, ns := range there {
		f.until("one namespace", func() bool { return c.ask(one(ns)).Code == wire.OK })
	}
	for range 3 {
		if res := c.ask(one(there...)); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("both, whose logs are led, while log %d is not: %v %q", lost, res.Code, res.Message)
		}
	}
	if res := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: "alice"}); res.Code != wire.OK {
		t.Errorf("no paths: %v %q", res.Code, res.Message)
	}
}
