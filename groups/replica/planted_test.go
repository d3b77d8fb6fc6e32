//go:build plant

package replica

import (
	"os"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/planted"
)

// A build with planted bugs is told which one to have by its environment.
func init() { engine.Planted = os.Getenv(planted.Env) }

// TestPlantedForTests: the tests of single rows fail when what they are about is broken.
func TestPlantedForTests(t *testing.T) {
	planted.FoundBy(t, map[string]string{
		engine.PlantSessionRows: "TestSessionsOutliveARestart",
		engine.PlantForgotten:   "TestFullOfSessions",
	})
}
