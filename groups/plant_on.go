//go:build plant

package groups

import (
	"os"

	"github.com/pathlockd/pathlockd/engine"
)

// A build with planted bugs is told which one to have by its environment.
func init() { engine.Planted = os.Getenv("PATHLOCKD_PLANT") }
