//go:build plant

package lab_test

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/engine"
)

var plantedWithin = flag.Duration("lab.planted", 5*time.Minute, "how long a planted bug may stay unfound")

// TestPlanted has each of the planted bugs found: `make planted`.
func TestPlanted(t *testing.T) {
	for _, bug := range []string{
		engine.PlantStaleRead, engine.PlantTokenReuse, engine.PlantRestoreReuse, engine.PlantExpiredOwner, engine.PlantLostWaiter, engine.PlantClockStep,
		engine.PlantSlowClock,
	} {
		t.Run(bug, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), *plantedWithin+2*time.Minute)
			defer cancel()
			engine.Planted = bug
			s := seedOf(t)
			c, err := cluster.NewNodes(ctx, t.TempDir(), 3, s)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := lab.Run(ctx, lab.Config{Seed: s, Duration: *plantedWithin, Episode: 10 * time.Second, Clients: 10, Sit: true, Keep: *keep, Logf: t.Logf}, c)
			if errors.Is(err, cluster.ErrBackup) {
				t.Logf("found after %v and %d operations, blows %v: %v", r.Took.Round(100*time.Millisecond), r.Operations, r.Blows, err)
				return
			}
			if len(r.Violations) == 0 {
				t.Fatalf("not found in %v: %d operations, blows %v, %v", r.Took, r.Operations, r.Blows, err)
			}
			t.Logf("found after %v and %d operations, blows %v: %v", r.Took.Round(100*time.Millisecond), r.Operations, r.Blows, r.Violations[0])
		})
	}
}
