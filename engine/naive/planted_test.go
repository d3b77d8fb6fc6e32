//go:build plant

package naive

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
)

// A build with planted bugs is told which one to have by its environment.
func init() { engine.Planted = os.Getenv("PATHLOCKD_PLANT") }

// TestPlantedForTheModel: the naive model finds what is wrong with a state by itself, those
// bugs too that clients have no eye for.
func TestPlantedForTheModel(t *testing.T) {
	for _, bug := range []string{"", engine.PlantPolledPlace, engine.PlantGivenUpRoot, engine.PlantLoosePermit, engine.PlantAnyStride, engine.PlantOwnQueue} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestNaive$", "-rapid.checks=3000", "-rapid.steps=60", "-rapid.nofailfile")
		cmd.Env = append(os.Environ(), "PATHLOCKD_PLANT="+bug)
		out, err := cmd.CombinedOutput()
		if failed := strings.Contains(string(out), "--- FAIL: TestNaive"); failed != (bug != "") || !failed && err != nil {
			t.Errorf("TestNaive with %q planted: failed %v, %v:\n%s", bug, failed, err, out)
		}
	}
}
