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
				o := testkit.Run(t, test, plant, "-test.timeout", "10m")
				took := time.Since(began).Round(time.Millisecond)
				if !o.Ran || o.Failed != (plant != "") {
					t.Fatalf("%s with %q planted: ran %v, failed %v, after %v:\n%s", test, plant, o.Ran, o.Failed, took, tail(o.Output))
				}
				if plant != "" {
					t.Logf("found by %s after %v: %s", test, took, regexp.MustCompile(`seed \d+(, after|: c)[^\n]*`).Find(o.Output))
				}
			}
		})
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }
