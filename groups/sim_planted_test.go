//go:build plant

package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/planted"
)

// TestSimulatePlanted has the simulation find each of the bugs that it can be expected
// to, and nothing where none is planted: `make planted`.
func TestSimulatePlanted(t *testing.T) {
	within := time.Duration(envInt("PATHLOCKD_SIM_PLANTED", 600)) * time.Second
	bugs := []string{
		"", engine.PlantNodeLimits, engine.PlantSessionRows, engine.PlantLateAnswers, engine.PlantTokenReuse,
		engine.PlantLostWaiter,
		engine.PlantStaleRead, engine.PlantExpiredOwner, engine.PlantGivenUpRoot, engine.PlantOutOfLine,
		engine.PlantFoldedAway,
		engine.PlantHeldForGood, engine.PlantUntied, engine.PlantKeysStay, engine.PlantFalseLost, engine.PlantForgotten,
		engine.PlantLoosePermit, engine.PlantAnyToken, engine.PlantEarlyBind, engine.PlantNoGap,
		engine.PlantPolledPlace, engine.PlantOwnQueue, engine.PlantEndsUntimed,
		engine.PlantShortMemory,
	}
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			engine.Planted = bug
			defer func() { engine.Planted = "" }()
			began := time.Now()
			var all counts
			for seed := uint64(1); time.Since(began) < within && (bug != "" || seed <= 100); seed++ {
				w := simulate(planOf(seed), simDir(t), nil)
				all.add(w.count)
				if w.broken == "" {
					continue
				}
				if bug == "" {
					t.Fatalf("seed %d: %s", seed, w.broken)
				}
				t.Logf("found by seed %d, after %d operations and %v: %s", seed, all.ops,
					time.Since(began).Round(time.Millisecond), w.broken)
				return
			}
			if bug != "" {
				t.Fatalf("not found in %v and %d operations", time.Since(began), all.ops)
			}
		})
	}
}

// TestPlantedForTests: the tests of single rows fail when what they are about is broken, those
// too that the simulation has no eye for.
func TestPlantedForTests(t *testing.T) {
	planted.FoundBy(t, map[string]string{
		engine.PlantRevived:     "TestLateWaitAskedAgain",
		engine.PlantKeysStay:    "TestKeysMove",
		engine.PlantOutOfLine:   "TestOrderAcrossMoves",
		engine.PlantHeldForGood: "TestHeldBackInTime",
		engine.PlantFalseLost:   "TestRenewWithOldRoutes",
		engine.PlantLateBound:   "TestLateBind",
		engine.PlantBareRoot:    "TestRootOfAHandler",
		engine.PlantEndsUntimed: "TestLeaseBesideEnds",

		engine.PlantShortMemory:  "TestCopyBehindRepeatTime",
		engine.PlantAttachedAnew: "TestKilledWaitBehindItsSession",
	})
}
