package lab_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/server"
)

var (
	seed = flag.Uint64("lab.seed", 0, "seed of the runs; 0: by the clock")
	took = flag.Duration("lab.duration", 8*time.Second, "how long each run goes on")
	keep = flag.String("lab.keep", "", "where to keep histories that break promises")
)

func seedOf(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: again with -lab.seed=%d", s, s)
	return s
}

// TestNode strikes a node in this process: power losses, drains, clock steps.
func TestNode(t *testing.T) { nodes(t, 1) }

// TestNodes strikes three of them: partitions and storms too.
func TestNodes(t *testing.T) { nodes(t, 3) }

func nodes(t *testing.T, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), *took+2*time.Minute)
	defer cancel()
	s := seedOf(t)
	c, err := cluster.NewNodes(ctx, t.TempDir(), n, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run(ctx, t, c, s)
}

// TestProcesses strikes a real process on a real disk: kill -9, stops, a full disk.
func TestProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	bin, err := server.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.NewProcesses(ctx, bin, dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run(ctx, t, c, seedOf(t))
}

func run(ctx context.Context, t *testing.T, c cluster.Cluster, s uint64) {
	t.Helper()
	r, err := lab.Run(ctx, lab.Config{
		Seed: s, Duration: *took, Episode: min(*took, 10*time.Second), Clients: 8, Keep: *keep, Logf: t.Logf,
	}, c)
	if err != nil {
		t.Error(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if blows := len(r.Blows); err == nil && len(r.Violations) == 0 && (r.Granted < 40 || r.Queued < 20 || r.Accesses < 10 || blows == 0) {
		t.Errorf("that is too little to show anything: %d granted, %d told to wait, %d accesses, %d kinds of blows", r.Granted, r.Queued, r.Accesses, blows)
	}
	t.Logf("%d operations in %v, outcomes %v, %d granted, %d queued, %d accesses, %d digests, blows %v",
		r.Operations, r.Took.Round(time.Millisecond), r.Outcomes, r.Granted, r.Queued, r.Accesses, r.Compared, r.Blows)
}
