package groups

import (
	"time"

	"github.com/pathlockd/pathlockd/engine"
)

// planted is what the time of day has stepped by, ms, when leases are to follow it: a bug
// for the fault laboratory to find, and 0 in any other build (engine/plant.go).
func (l *shardLog) planted() int64 {
	if engine.Planted != engine.PlantClockStep {
		return 0
	}
	// Both clocks began at the same time, as far as a laboratory's do.
	return (time.Duration(l.clock.Wall().UnixNano()) - time.Duration(time.Now().UnixNano())).Milliseconds()
}
