//go:build plant

package pathlockd

import (
	"regexp"
	"testing"
	"time"

	testkit "github.com/pathlockd/pathlockd/internal/testkit/planted"
)

// TestPlanted: each planted bug makes its test fail, the simulation where it can, and without
// one they pass.
func TestPlanted(t *testing.T) {
	for bug, test := range map[string]string{
		plantDeadProxy:   "TestBeliefInSimulation",
		plantNoticed:     "TestBeliefInSimulation",
		plantSharedLease: "TestBeliefInSimulation",
		plantLateRelease: "TestBeliefInSimulation",
		plantLikeNames:   "TestBeliefInSimulation",
		plantGivenBack:   "TestBeliefInSimulation",
		plantGivenBefore: "TestReleasesItselfBefore",
		plantCurbedAfar:  "TestRenewsItselfElsewhereMeanwhile",
		plantKeptLong:    "TestShortBesideLongRefused",
		plantUnnamed:     "TestKilledOfManyPathsMeanwhile",
		plantShortOwners: "TestMadeUpOwnersAreTheirClients",
		plantInTurn:      "TestNodesThatHang",
		plantOtherErrors: "TestALockThatTimesOutSaysSo",
		plantUnslept:     "TestASuspensionCounts",
		plantThinMargin:  "TestClocksDoNotRunAlike",
	} {
		t.Run(bug, func(t *testing.T) {
			for _, plant := range []string{"", bug} {
				if plant != "" && test == "TestBeliefInSimulation" {
					t.Setenv(seedsVar, "100000")
				}
				began := time.Now()
				out := testkit.Run(t, test, plant, "-test.timeout", "10m")
				if plant != "" && !t.Failed() {
					told := regexp.MustCompile(`seed \d+(, after|: c)[^\n]*`).Find(out)
					t.Logf("found by %s after %v: %s", test, time.Since(began).Round(time.Millisecond), told)
				}
			}
		})
	}
}
