package groups

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/dragon"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// stand has each of so many owners wait for paths below one that is held, two each, and says
// how many were let in.
func (c *caller) stand(owners int) (waits []*outcome, refused int) {
	c.r.t.Helper()
	for i := range owners {
		req := waiting(write(fmt.Sprintf("w%d", i), "h:/a/x", time.Hour))
		req.Locks = append(req.Locks, wire.LockRequest{Path: fmt.Sprintf("h:/a/y%d", i)})
		o := c.r.session().start(c.r.next.Add(1), req) // each its own: a session has a share, as an owner has
		select {
		case <-o.queued:
			waits = append(waits, o)
		case res := <-o.done:
			if res.Code != wire.ResourceExhausted {
				c.r.t.Fatalf("waiter %d is answered %+v", i, res)
			}
			refused++
		}
	}
	return waits, refused
}

// TestReplayKeepsToTheLimitsOfItsTime: a node whose limit was changed replays what it applied
// under the old one, and answers as it did: who was queued waits on, and who was refused gets
// nothing.
func TestReplayKeepsToTheLimitsOfItsTime(t *testing.T) {
	for _, c := range []struct{ was, is, in int }{{65_536, 8, 6}, {8, 65_536, 4}} {
		t.Run(fmt.Sprintf("%d to %d", c.was, c.is), func(t *testing.T) {
			r := newRig(t, func(cfg *Config) { cfg.MaxQueued = c.was })
			a := r.session()
			a.must(write("a", "h:/a/x", time.Hour))
			waits, refused := a.stand(6)
			if len(waits) != c.in || refused != 6-c.in {
				t.Fatalf("%d waiters are in and %d refused under a limit of %d", len(waits), refused, c.was)
			}
			r.cfg.MaxQueued = c.is
			r.powerLoss()
			res := r.session().must(&wire.Request{Op: wire.OpDescribe, Path: "h:/a/x"})
			if int(res.Count) != c.in {
				t.Errorf("%d wait after the replay, %d were let in", res.Count, c.in)
			}
			// From now on the new one counts.
			b := r.session()
			if _, now := b.stand(12); (now > 0) != (c.is == 8) {
				t.Errorf("%d of 12 further waiters are refused under a limit of %d", now, c.is)
			}
		})
	}
}

// warnings is a log that counts what it is warned of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, string(b))
	return len(b), nil
}

func (w *warnings) count(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.said {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// sameDigests waits until all nodes have applied the same of a log, and checks that this
// means the same.
func (f *localCluster) sameDigests(shard uint64) {
	f.t.Helper()
	f.until("all nodes are at the same entry", func() bool {
		var first replica.LogDigest
		for i, n := range f.nodes {
			m := n.logs[shard].local.Load()
			if m == nil {
				return false
			}
			d := m.Digest()
			if i == 0 {
				first = d
			}
			if d.Index != first.Index {
				return false
			}
			if d.Sum != first.Sum {
				f.t.Fatalf("node %d means another than node 0 by the same %d entries", i, d.Index)
			}
		}
		return true
	})
}

// handOver has a log led by a node.
func (f *localCluster) handOver(shard uint64, to int) {
	f.t.Helper()
	f.until("the leadership is handed over", func() bool {
		l := f.nodes[to].logs[shard]
		m := l.local.Load()
		if l.leads() && l.held.Load() != 0 {
			return true
		}
		if m != nil {
			_ = f.nodes[to].raft.(*dragon.Host).NodeHost.RequestLeaderTransfer(shard, m.Replica) // it is asked again
		}
		return false
	})
}

// TestNodesOfDifferentLimits: replicas of nodes that are configured otherwise apply the same,
// by the limits of who leads; and the others say so, once.
func TestNodesOfDifferentLimits(t *testing.T) {
	t.Parallel()
	queued := [3]int{8, 65_536, 16}
	var logs [3]warnings
	f := newLocalCluster(t, 3, func(i int, c *Config) {
		c.MaxQueued, c.GroupCount, c.LogCount = queued[i], 1, 1
		c.Log = slog.New(slog.NewTextHandler(&logs[i], nil))
	})
	f.settle(3)
	shard := uint64(rows.FirstLog)
	const path = "h:/a/x"
	clients := [3]*caller{f.rigOn(0).session(), f.rigOn(1).session(), f.rigOn(2).session()}
	for round := 0; round < 4; {
		lead := f.leader(path)
		c, term := clients[lead], f.nodes[lead].logs[shard].mine()
		c.must(write(fmt.Sprintf("a%d", round), path, time.Hour))
		waits, refused := c.stand(10)
		right := len(waits) == min(10, queued[lead]/2)
		c.must(&wire.Request{Op: wire.OpForceRelease, Owner: fmt.Sprintf("a%d", round)})
		for i := range 10 {
			c.must(&wire.Request{Op: wire.OpForceRelease, Owner: fmt.Sprintf("w%d", i)})
		}
		f.sameDigests(shard)
		switch {
		case right:
			f.handOver(shard, (lead+1)%3)
			round++
		case f.nodes[lead].logs[shard].mine() == term: // else it was handed over meanwhile
			t.Fatalf("round %d: %d are in and %d refused, and node %d leads with a limit of %d", round, len(waits),
				refused, lead, queued[lead])
		}
	}
	for i := range logs {
		if n := logs[i].count("instead of"); n == 0 || n > 2 { // two others lead
			t.Errorf("node %d says %d times that it goes by others' limits", i, n)
		}
	}
}
