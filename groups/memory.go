package groups

import (
	"os"
	"runtime/debug"
)

// collectAt is the heap's growth, in percent of what lives, after which garbage is
// collected. A collection visits every lock that is held, so what it costs grows
// with the locks and not with the requests: with 1 M locks and Go's own 100 the
// collector took a sixth of the server's time, and its assists stood in the way of
// requests. 300 costs memory instead: up to four times what lives.
const collectAt = 300

// TuneCollector sets the collector's pace for a process that serves locks, unless
// GOGC says otherwise. GOMEMLIMIT is honoured in any case.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}
