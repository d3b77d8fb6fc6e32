package lab_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/check"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// TestBallast asks a node that loses its power now and then the same among thousands of
// locks, waiters and owners and among a few (promise 8). It runs before the tests that run
// beside each other, so that there is time to ask often. Three nodes have their turn in
// make torture.
func TestBallast(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	s := seedOf(t)
	c, err := cluster.NewNodes(ctx, t.TempDir(), 1, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := lab.Run(ctx, lab.Config{
		Seed: s, Duration: 8 * time.Second, Episode: 8 * time.Second, Clients: 2, Ballast: lab.Ballast,
		Faults: []string{"kill", "clock step", "backup"},
		Enough: asked, Keep: *keep, Logf: t.Logf,
	}, c)
	if err != nil {
		t.Error(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	costs(t, r)
	if err == nil && len(r.Violations) == 0 && !asked(r) {
		t.Error("nobody saw what requests cost")
	}
}

// asked says that it was tried what requests cost. How often is up to the machine: when that
// was too seldom it is told, and is no verdict.
func asked(r *lab.Report) bool {
	return len(r.Costs) > 0 && !slices.ContainsFunc(r.Costs, func(c history.Cost) bool { return len(c.Pairs) == 0 })
}

func costs(t *testing.T, r *lab.Report) {
	t.Helper()
	for i := range r.Costs {
		w := check.Weigh(&r.Costs[i])
		t.Logf("%v; %d verdicts", w, r.Weighed[w.Kind])
	}
}
