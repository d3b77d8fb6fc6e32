package lab_test

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
)

// TestRestore abandons a cluster under load and founds another one with a backup: what was
// acknowledged before the backup is there, nothing that came after it, and tokens go on
// above all that were ever told of.
func TestRestore(t *testing.T) { wander(t, 1, "restore") }

// TestMembership has a node join under load, and one leave for good: afterwards every log is
// where it belongs. Who cannot become fewer becomes more.
func TestMembership(t *testing.T) { wander(t, 2, "leave") }

// wander has so many faults happen to three nodes that are not the same three afterwards.
func wander(t *testing.T, faultCount int, faults ...string) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s := seedOf(t)
	c, err := cluster.NewNodes(ctx, t.TempDir(), 3, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enough := func(r *lab.Report) bool { return r.Granted >= 40 && r.Queued >= 10 }
	r, err := lab.Run(ctx, lab.Config{
		Seed: s, Duration: time.Minute, Episode: 20 * time.Second, Clients: 8, Faults: faults, MaxFaults: faultCount,
		Ballast: lab.Ballast / 10, Enough: enough, Keep: *keep, Logf: t.Logf,
	}, c)
	if err != nil {
		t.Error(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	n := 0
	for _, of := range r.FaultCounts {
		n += of
	}
	if err == nil && len(r.Violations) == 0 && (n != faultCount || !enough(r)) {
		t.Errorf("that is too little to show anything: %d granted, %d told to wait, faults %v", r.Granted, r.Queued,
			r.FaultCounts)
	}
	t.Logf("%d operations in %v, outcomes %v, %d granted, %d queued, %d digests, faults %v",
		r.Operations, r.Took.Round(time.Millisecond), r.Outcomes, r.Granted, r.Queued, r.Compared, r.FaultCounts)
	costs(t, r)
}
