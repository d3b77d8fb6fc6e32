//go:build plant

package engine

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A build with planted bugs is told which one to have by its environment.
func init() { Planted = os.Getenv("PATHLOCKD_PLANT") }

// TestPlantedForTests: the tests of single rows fail when what they are about is broken.
func TestPlantedForTests(t *testing.T) {
	for bug, test := range map[string]string{
		PlantInOneStep: "TestDepartureInSteps",
	} {
		for _, plant := range []string{"", bug} {
			cmd := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.v")
			cmd.Env = append(os.Environ(), "PATHLOCKD_PLANT="+plant)
			out, err := cmd.CombinedOutput()
			failed := err != nil && strings.Contains(string(out), "--- FAIL: "+test)
			if !strings.Contains(string(out), "=== RUN   "+test) || failed != (plant != "") || !failed && err != nil {
				t.Errorf("%s with %q planted: failed %v, %v:\n%s", test, plant, failed, err, out)
			}
		}
	}
}
