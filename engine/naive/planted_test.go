//go:build plant

package naive

import (
	"os"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/planted"
)

// A build with planted bugs is told which one to have by its environment.
func init() { engine.Planted = os.Getenv(planted.Env) }

// TestPlantedForTheModel: the naive model finds what is wrong with a state by itself, those
// bugs too that clients have no eye for.
func TestPlantedForTheModel(t *testing.T) {
	for _, bug := range []string{
		"", engine.PlantPolledPlace, engine.PlantGivenUpRoot, engine.PlantLoosePermit, engine.PlantAnyStride,
		engine.PlantOwnQueue,
	} {
		planted.Run(t, "TestNaive", bug, "-rapid.checks=3000", "-rapid.steps=60", "-rapid.nofailfile")
	}
}
