// Package faketime runs tests on a clock of their own.
package faketime

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var alone struct {
	mu      sync.Mutex
	bubbles int // that run now
	procs   int // as many processors there were before the first of them
}

// Test runs a test on a clock of its own (testing/synctest), which moves only while everybody in it waits.
//
// Under the race detector, Go code has one processor while a bubble runs. All timers of a bubble are one thread to the
// detector, and two goroutines that look at once at channels of timers that have run out carry them out at once: the
// detector's memory breaks, and the process with it, rarely and anywhere (golang/go#78156). What races is found by what
// happens before what, not by what happens at once, so nothing is lost but time.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if raceDetector {
		alone.mu.Lock()
		if alone.bubbles++; alone.bubbles == 1 {
			alone.procs = runtime.GOMAXPROCS(1)
		}
		alone.mu.Unlock()
		defer func() {
			alone.mu.Lock()
			defer alone.mu.Unlock()
			if alone.bubbles--; alone.bubbles == 0 {
				runtime.GOMAXPROCS(alone.procs)
			}
		}()
	}
	synctest.Test(t, f)
}
