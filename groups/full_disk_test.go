package groups

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// disks is a calm cluster of three, and how much space each of its nodes has.
func disks(t *testing.T) (*localCluster, []*atomic.Uint64) {
	var free []*atomic.Uint64
	for range 3 {
		b := new(atomic.Uint64)
		b.Store(plenty)
		free = append(free, b)
	}
	f := newLocalCluster(t, 3, func(i int, c *Config) {
		c.ElectionMin, c.Heartbeat, c.EvictionWindow = 5*time.Second, 200*time.Millisecond, time.Hour
		c.DiskReserve = testReserve
		c.Free = func(string) (uint64, error) { return free[i].Load(), nil }
	})
	f.settle(3)
	return f, free
}

// known waits until every node knows how much space is free on node i.
func (f *localCluster) known(i int, want gossip.Shortage) {
	f.t.Helper()
	host := f.nodes[i].id.HostID
	f.each(3, func(n *Node) {
		f.until(fmt.Sprintf("%s knows the disk of node %d", n.id.NodeID, i), func() bool {
			s, ok := n.cluster.sighting(host)
			return ok && s.Shortage == want
		})
	})
}

// ledBy waits until every node knows leaders of all logs that may lead them.
func (f *localCluster) ledBy(what string, may ...*Node) {
	f.t.Helper()
	hosts := make(map[string]bool)
	for _, n := range may {
		hosts[n.id.HostID] = true
	}
	f.each(3, func(n *Node) {
		f.until(n.id.NodeID+" knows that "+what, func() bool {
			for _, shard := range n.id.Logs() {
				if host, _ := n.leaderOf(shard); !hosts[host] {
					return false
				}
			}
			return true
		})
	})
}

// rounds has every node think about its logs, so many times.
func (f *localCluster) rounds(times int) {
	f.t.Helper()
	f.each(3, func(n *Node) {
		seen := "" // which round the plans are of
		for range times + 1 {
			f.until(n.id.NodeID+" thinks about its logs", func() bool {
				n.lookAround()
				n.plans.mu.Lock()
				defer n.plans.mu.Unlock()
				was := seen
				seen = fmt.Sprintf("%p", n.plans.by)
				return seen != was
			})
		}
	})
}

// paths is a path in each log.
func (f *localCluster) paths() map[uint64]string {
	n, all := f.nodes[0], make(map[uint64]string)
	for i := 0; len(all) < len(n.logs)-1; i++ {
		path := fmt.Sprintf("h:/room-%d/x", i)
		shard := n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
		if all[shard] == "" {
			all[shard] = path
		}
	}
	return all
}

// writes says that every log takes writes through a node.
func (f *localCluster) writes(n *Node) {
	f.t.Helper()
	t := f.t.(*testing.T)
	c := newClusterClient(n)
	for _, shard := range slices.Sorted(maps.Keys(f.paths())) {
		path := f.paths()[shard]
		c.mustAcquire(t, path, "o")
		if res := c.insist(t, release("o", path)); res.Code != wire.OK {
			t.Errorf("release %s through %s: %+v", path, n.id.NodeID, res)
		}
	}
	if res := c.insist(t, &wire.Request{Op: wire.OpIncrToken}); res.Code != wire.OK {
		t.Errorf("a token through %s: %+v", n.id.NodeID, res)
	}
}

// TestShortOfDisk: what a node led whose disk is nearly full is led by others, every log
// takes writes through every node, it is given nothing to lead while that lasts, and leads
// again when it has room.
func TestShortOfDisk(t *testing.T) {
	t.Parallel()
	f, free := disks(t)
	const at = 1
	full := f.nodes[at]
	others := []*Node{f.nodes[0], f.nodes[2]}
	f.until("it leads something", func() bool { return len(full.ledLogs()) > 0 })

	free[at].Store(testReserve / 3) // renewals that it would have to replicate first are refused too
	f.known(at, gossip.Shortage{Free: testReserve / 3, Reserve: testReserve})
	f.ledBy("the others lead", others...)
	f.each(3, f.writes)
	c := newClusterClient(full)
	c.mustAcquire(t, strings.TrimSuffix(f.paths()[rows.FirstLog], "x")+"y", "renewer")
	if res := c.insist(t, &wire.Request{Op: wire.OpRenew, Owner: "renewer", TTLMillis: 60_000}); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Errorf("a renewal through it, of what others lead: %+v", res)
	}
	f.rounds(3)
	f.ledBy("the others lead, and go on", others...)

	want := full.id.NodeID + " has 42 MiB free in data_dir, below disk_reserve_bytes (128 MiB), and others lead in " +
		"its place: make room there"
	var doc *wire.ClusterStatus
	if !within(clusterPatience, 100*time.Millisecond, func() bool { // a busy machine may have others for a moment
		doc = f.rigOn(0).session().status()
		return doc.Healthy && slices.Equal(doc.Problems, []string{want})
	}) {
		t.Errorf("healthy %v, problems %q, want %q", doc.Healthy, doc.Problems, want)
	}
	if ok, detail := full.Health(); ok || !strings.Contains(detail, "disk_reserve_bytes") {
		t.Errorf("its own health is %v, %q", ok, detail)
	}
	for _, n := range others {
		for _, m := range n.ledLogs() {
			if err := n.transferOwn(m.Shard, full.id.NodeID); err == nil ||
				!strings.Contains(err.Error(), "make room there first") {
				t.Errorf("log %d is handed to it: %v", m.Shard, err)
			}
			successor, ok := n.successor(m, 0)
			if host := n.book.HostOf(m.Shard, successor); !ok || host == full.id.HostID {
				t.Errorf("its successor to log %d is %s", m.Shard, n.nodeOf(host))
			}
		}
		order := []string{full.id.NodeID, f.nodes[0].id.NodeID, f.nodes[2].id.NodeID}
		if got, want := n.roomyFirst(order), []string{order[1], order[2], order[0]}; !slices.Equal(got, want) {
			t.Errorf("they stand in the order %v, want %v", got, want)
		}
	}

	// While an election goes on others are to win it; if it does, it hands on.
	shard := uint64(rows.FirstLog)
	_, term := full.leaderOf(shard)
	full.noteLeader(shard, term+1, "")
	if err := full.refusesIn(wire.OpAcquire, full.logs[shard]); err != nil {
		t.Errorf("while nobody leads: %v", err)
	}
	f.until("it is elected", func() bool {
		_, now := full.leaderOf(shard)
		host, _ := f.nodes[0].leaderOf(shard)
		if now > term+1 || host == full.id.HostID {
			return true
		}
		full.raft.Campaign(shard, full.logs[shard].local.Load().Replica)
		return false
	})
	f.ledBy("the others lead what it was elected for", others...)

	free[at].Store(plenty)
	f.known(at, gossip.Shortage{})
	f.until("it leads again", func() bool { return len(full.ledLogs()) > 0 })
	f.settle(3)
	f.each(3, f.writes)
	if !within(clusterPatience, 100*time.Millisecond, func() bool {
		doc = f.rigOn(0).session().status()
		return len(doc.Problems) == 0
	}) {
		t.Errorf("problems when there is room: %q", doc.Problems)
	}
}

// TestAllShortOfDisk: nodes that are all short lead on; one of them that has room leads
// everything, and goes on when it is short again.
func TestAllShortOfDisk(t *testing.T) {
	t.Parallel()
	f, free := disks(t)
	low := gossip.Shortage{Free: testReserve - 1, Reserve: testReserve}
	for i := range free {
		free[i].Store(low.Free)
	}
	for i := range free {
		f.known(i, low)
	}
	stay := func(what string, all ...*Node) {
		t.Helper()
		f.ledBy("all logs are led, "+what, all...)
		for tries := 3; ; tries-- { // the first ones may see what was begun before everybody knew
			before := f.terms(nil)
			f.rounds(12)
			now := f.terms(nil)
			if len(now) == len(f.nodes[0].logs) && maps.Equal(now, before) {
				break
			}
			if tries == 0 {
				t.Fatalf("%s: leaders of the terms %v, %v before", what, now, before)
			}
		}
		f.ledBy("all logs are led, "+what, all...)
	}
	stay("all short", f.nodes...)
	f.each(3, func(n *Node) {
		c := newClusterClient(n)
		for _, path := range f.paths() {
			req := &wire.Request{Op: wire.OpAcquire, Owner: "o", TTLMillis: 60_000,
				Locks: []wire.LockRequest{{Path: path, Mode: wire.ModeWrite}}}
			if res := c.ask(t, req); res.Code != wire.Unavailable ||
				!strings.Contains(res.Message, "disk_reserve_bytes") {
				t.Errorf("an acquire while all are short: %+v", res)
			}
		}
	})
	doc := f.rigOn(0).session().status()
	if !doc.Healthy || len(doc.Problems) != 3 {
		t.Errorf("healthy %v, problems %q", doc.Healthy, doc.Problems)
	}
	for _, p := range doc.Problems {
		if !strings.Contains(p, "takes no writes: make room there") &&
			!strings.Contains(p, "others lead in its place") {
			t.Errorf("problem %q", p)
		}
	}

	from := f.nodes[f.leader(f.paths()[rows.FirstLog])]
	to := f.nodes[(slices.Index(f.nodes, from)+1)%3]
	f.until("one of them takes over what another gives up on purpose", func() bool {
		return to.logs[rows.FirstLog].leads() || from.transferOwn(rows.FirstLog, to.id.NodeID) == nil
	})

	const at = 2
	free[at].Store(plenty)
	f.known(at, gossip.Shortage{})
	f.ledBy("the one with room leads", f.nodes[at])
	f.each(3, f.writes)
	free[at].Store(low.Free)
	f.known(at, low)
	stay("short again", f.nodes[at])
}
