//go:build plant

package lab_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/check"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/engine"
)

var (
	plantedWithin = flag.Duration("lab.planted", 5*time.Minute, "how long a planted bug may stay unfound")
	controlled    = flag.Duration("lab.control", 90*time.Second,
		"how long nothing is looked for: as long as a bug takes to be found, mostly")
)

// planted are the bugs, and what shows each: a promise that it breaks by what it is, or a
// backup that contradicts itself. Another promise that is broken is no find, but something
// that nobody planted.
var planted = []struct {
	bug      string
	promises []int
	backup   bool
}{
	{engine.PlantStaleRead, []int{2}, false},
	{engine.PlantTokenReuse, []int{3, 4, 5}, true},
	{engine.PlantRestoreReuse, []int{3, 4}, false},
	{engine.PlantExpiredOwner, []int{2, 5}, false}, // 2: it is told that it holds nothing, and then is in others' way
	{engine.PlantLostWaiter, []int{6}, false},
	{engine.PlantClockStep, []int{5, 6}, false},
	{engine.PlantSlowClock, []int{5}, false},
	{engine.PlantWalkBelow, []int{8}, false},
}

// TestPlanted has each of the planted bugs found, by what it breaks, and nothing where none
// is planted: `make planted`.
func TestPlanted(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		r, err := all(t, "", seedOf(t), *controlled)
		for _, v := range r.Violations {
			t.Error(v)
		}
		if err != nil || r.Granted == 0 || len(r.FaultCounts) == 0 {
			t.Errorf("%d granted, faults %v: %v", r.Granted, r.FaultCounts, err)
		}
		t.Logf("nothing found in %v and %d operations, faults %v", r.Took.Round(100*time.Millisecond), r.Operations,
			r.FaultCounts)
	})
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) {
			seed, began := seedOf(t), time.Now()
			for n := uint64(0); time.Since(began) < *plantedWithin; n++ {
				r, err := all(t, p.bug, seed+n, *plantedWithin-time.Since(began))
				i := slices.IndexFunc(r.Violations,
					func(v check.Violation) bool { return slices.Contains(p.promises, v.Promise) })
				what := any(err)
				if i >= 0 {
					what = r.Violations[i]
				}
				if i >= 0 || p.backup && errors.Is(err, cluster.ErrBackup) {
					t.Logf("found after %v, in a run of %d operations, faults %v: %v",
						time.Since(began).Round(100*time.Millisecond), r.Operations, r.FaultCounts, what)
					return
				}
				for _, v := range r.Violations {
					t.Logf("that is not what %s breaks: %v", p.bug, v)
				}
				t.Logf("seed %d does not find it in %v, %d operations, faults %v: %v", seed+n, r.Took, r.Operations,
					r.FaultCounts, err)
			}
			t.Fatalf("not found in %v", time.Since(began))
		})
	}
}

// all runs all faults on three nodes that have a bug.
func all(t *testing.T, bug string, seed uint64, within time.Duration) (*lab.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within+2*time.Minute)
	defer cancel()
	engine.Planted = bug
	c, err := cluster.NewNodes(ctx, t.TempDir(), 3, seed)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return lab.Run(ctx, lab.Config{Seed: seed, Duration: within, Episode: 10 * time.Second, Clients: 10, Sit: true,
		Ballast: lab.Ballast, Keep: *keep, Logf: t.Logf}, c)
}
