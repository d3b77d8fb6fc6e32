package lab_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

// herd is processes that come and go under load.
type herd struct {
	*testing.T
	ctx context.Context
	c   *server.Cluster
	up  int
}

// add starts another node.
func (h *herd) add() {
	h.Helper()
	i := h.c.Nodes()
	err := h.c.Add()
	if err == nil {
		err = h.c.Start(h.ctx, i)
	}
	if err != nil {
		h.Fatal(err)
	}
	h.up++
}

// stop stops a node for good.
func (h *herd) stop(i int) {
	h.Helper()
	if err := h.c.Stop(h.ctx, i); err != nil {
		h.Fatal(err)
	}
	h.up--
}

// settle waits until every log has so many voters, every node that is there counts and
// has its share of them, and the cluster calls itself healthy.
func (h *herd) settle(c *pathlockd.Client, voters int) {
	h.Helper()
	began, last := time.Now(), ""
	for time.Since(began) < 2*time.Minute {
		s, err := c.ClusterStatus(h.ctx)
		if err != nil {
			last = err.Error()
			continue
		}
		last = fmt.Sprintf("%q", s.Problems)
		good, alive := s.Healthy, 0
		for _, n := range s.Nodes {
			if n.Alive {
				alive++
				good = good && n.Stable && n.Replicas > 0
			}
		}
		good = good && alive == h.up
		for _, l := range s.Logs {
			good = good && len(l.Voters) == voters && len(l.Learners) == 0
			for _, v := range l.Voters {
				good = good && slices.ContainsFunc(s.Nodes,
					func(n wire.NodeStatus) bool { return n.NodeID == v.Node && n.Alive })
			}
		}
		if good {
			h.Logf("%d nodes: every log is where it belongs after %v", h.up,
				time.Since(began).Round(100*time.Millisecond))
			return
		}
	}
	h.Fatalf("%d nodes: the logs do not get %d voters: %s", h.up, voters, last)
}

// herdLoad is what clients saw.
type herdLoad struct {
	requests, errors, again atomic.Int64
	mu                      sync.Mutex
	said                    map[string]int
	longest                 time.Duration
}

// work locks and unlocks until ctx ends.
func (l *herdLoad) work(ctx context.Context, c *pathlockd.Client, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	try := func(do func() error) bool {
		began := time.Now()
		for failed := false; ; failed = true {
			l.requests.Add(1)
			err := do()
			if ctx.Err() != nil {
				return false
			}
			if err == nil {
				if failed {
					l.again.Add(1)
				}
				break
			}
			l.mu.Lock()
			l.said[err.Error()]++
			l.mu.Unlock()
			if !failed {
				l.errors.Add(1)
			}
		}
		l.mu.Lock()
		l.longest = max(l.longest, time.Since(began))
		l.mu.Unlock()
		return true
	}
	for ctx.Err() == nil {
		path := fmt.Sprintf("grow:/tenant%d/file%d", rnd.IntN(64), rnd.IntN(50))
		var lock *pathlockd.Lock
		if !try(func() (err error) { lock, err = c.Lock(ctx, path); return err }) {
			return
		}
		held := try(func() error {
			res, err := c.AssertFencing(ctx, lock.Owner(), lock.Token(), path)
			if err == nil && res.Status != wire.StatusOK {
				err = fmt.Errorf("a lock that is held is not: %v", res.Reason)
			}
			return err
		})
		if !held || !try(func() error {
			err := lock.Unlock()
			var lost *pathlockd.LostError
			if errors.As(err, &lost) {
				return fmt.Errorf("lost: %w", err)
			}
			return err
		}) {
			return
		}
	}
}

// TestGrowAndShrink takes a cluster from one node to three, to five and back to three
// while clients work: the founder goes first.
func TestGrowAndShrink(t *testing.T) {
	if os.Getenv("PATHLOCKD_LONG") == "" {
		t.Skip("takes minutes: PATHLOCKD_LONG=1")
	}
	dir := t.TempDir()
	bin, err := server.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nodes, err := server.StartCluster(ctx, server.Spec{Bin: bin, Dir: dir, Settings: []string{
		"stability_window_secs = 1", "eviction_window_secs = 5", "leader_balance_interval_secs = 2",
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	h := &herd{T: t, ctx: ctx, c: nodes, up: 1}
	first := nodes.Node(0).Addr
	c, err := pathlockd.Dial(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h.settle(c, 1)

	load := &herdLoad{said: make(map[string]int)}
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range 8 {
		one, err := pathlockd.Dial(ctx, first)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		all.Go(func() { load.work(working, one, uint64(i)) })
	}
	began := time.Now()
	h.add()
	h.add()
	h.settle(c, 3)
	h.add()
	h.add()
	h.settle(c, 3)
	h.stop(0)
	h.settle(c, 3)
	if _, err := c.DrainNode(ctx, "pathlockd-1", wire.DrainReplicas); err != nil {
		t.Fatal(err)
	}
	h.empty(c, "pathlockd-1")
	h.stop(1)
	h.settle(c, 3)
	stop()
	all.Wait()

	requests, failed := load.requests.Load(), load.errors.Load()
	t.Logf("%d requests in %v, %d errors that reached the program, %d of them mended by asking again; the longest "+
		"took %v: %v",
		requests, time.Since(began).Round(time.Second), failed, load.again.Load(), load.longest.Round(time.Millisecond),
		load.said)
	if requests < 5000 {
		t.Errorf("%d requests are too few to show anything", requests)
	}
	if failed*10_000 >= requests || load.again.Load() != failed {
		t.Errorf("%d of %d requests failed, %d were mended: %s", failed, requests, load.again.Load(),
			strings.Join(slices.Collect(maps.Keys(load.said)), "; "))
	}
}

// empty waits until a node holds no replica.
func (h *herd) empty(c *pathlockd.Client, node string) {
	h.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		s, err := c.ClusterStatus(h.ctx)
		if err == nil && slices.ContainsFunc(s.Nodes, func(n wire.NodeStatus) bool {
			return n.NodeID == node &&
				n.Replicas == 0
		}) {
			return
		}
	}
	h.Fatalf("%s is not emptied", node)
}
