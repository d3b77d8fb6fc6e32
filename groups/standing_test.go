package groups

import (
	"maps"
	"sync"
	"testing"
	"time"
)

// calm is a cluster of three that each hold every log, with leaders where they belong:
// nothing that takes less than an election timeout moves them.
func calm(t *testing.T, change func(c *Config)) *localCluster {
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.ElectionMin, c.Heartbeat, c.EvictionWindow = 5*time.Second, 200*time.Millisecond, time.Hour
		if change != nil {
			change(c)
		}
	})
	f.settle(3)
	return f
}

// terms is in which term each log is led, but for those that one node leads.
func (f *localCluster) terms(but *Node) map[uint64]uint64 {
	all := make(map[uint64]uint64)
	for _, n := range f.nodes {
		for _, m := range n.ledLogs() {
			if n != but {
				all[m.Shard] = n.logs[m.Shard].mine()
			}
		}
	}
	return all
}

// sameTerms says that nobody was elected since: what is asked now comes behind anything
// that would have it so.
func (f *localCluster) sameTerms(what string, before map[uint64]uint64) {
	f.t.Helper()
	f.each(3, func(n *Node) {
		c := newClusterClient(n)
		for _, path := range []string{"h:/a/x", "h:/b/x", "h:/c/x", "h:/d/x", "h:/e/x", "h:/f/x"} {
			c.mustAcquire(f.t.(*testing.T), path, "o")
		}
		now := make(map[uint64]uint64)
		for shard := range before {
			_, now[shard] = n.leaderOf(shard)
		}
		if !maps.Equal(now, before) {
			f.t.Errorf("%s: %s knows leaders of the terms %v, %v before", what, n.id.NodeID, now, before)
		}
	})
}

// TestLiveLeaderStays: a node whose connection ended keeps what it leads while its
// process lives, and so does who leads a log when others had their turn to stand for it.
func TestLiveLeaderStays(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	before := f.terms(nil)
	if len(before) != len(f.nodes[0].logs) {
		t.Fatalf("the leaders are of the terms %v", before)
	}
	var all sync.WaitGroup
	f.each(3, func(n *Node) {
		for _, other := range f.nodes {
			if other == n {
				continue
			}
			all.Go(func() {
				n.failedLeader(other.id.HostID)
				for _, m := range other.ledLogs() { // as long as what failedLeader may have begun
					n.stand(m.Shard, "nobody", "nobody")
				}
			})
		}
	})
	all.Wait()
	f.sameTerms("connections ended", before)
}

// TestRestartDeposesNobody: a node that starts stands for election at once where it is
// the only voter, and nowhere else.
func TestRestartDeposesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.ElectionMin = time.Minute }) // ready within 20 s
	r.restart()
	r.session().must(write("o", "h:/a/x", time.Hour))

	f := calm(t, nil)
	before := f.terms(f.nodes[2])
	if err := f.nodes[2].Close(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	n := f.start(2)
	f.until("it knows who leads", func() bool { return n.health().Flag })
	f.sameTerms("a node was restarted", before)
}
