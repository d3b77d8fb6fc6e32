//go:build plant

package pathlockd

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
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
				cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "10m")
				cmd.Env = append(os.Environ(), "PATHLOCKD_PLANT="+plant)
				if plant != "" && test == "TestBeliefInSimulation" {
					cmd.Env = append(cmd.Env, seedsVar+"=100000")
				}
				began := time.Now()
				out, err := cmd.CombinedOutput()
				took := time.Since(began).Round(time.Millisecond)
				ran := bytes.Contains(out, []byte("=== RUN   "+test))
				failed := err != nil && bytes.Contains(out, []byte("--- FAIL: "+test))
				if !ran || failed != (plant != "") || !failed && err != nil {
					t.Fatalf("%s with %q planted: ran %v, failed %v, %v, after %v:\n%s", test, plant, ran, failed, err, took, tail(out))
				}
				if plant != "" {
					t.Logf("found by %s after %v: %s", test, took, regexp.MustCompile(`seed \d+(, after|: c)[^\n]*`).Find(out))
				}
			}
		})
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }
