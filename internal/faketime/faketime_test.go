package faketime

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestTimersOfMany: goroutines of a bubble may look at timers that have run out at once, under the race detector too.
// Without the one processor this ends the process within a second (by the detector itself).
func TestTimersOfMany(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 30 {
		Test(t, func(*testing.T) {
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 20 {
						timers := make([]*time.Timer, 20)
						for i := range timers {
							timers[i] = time.NewTimer(time.Millisecond)
						}
						time.Sleep(2 * time.Millisecond) // of the bubble's
						for _, timer := range timers {
							select {
							case <-timer.C:
							default:
								t.Error("a timer has not run out")
							}
						}
					}
				})
			}
			wg.Wait()
		})
	}
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors, were %d", n, before)
	}
}
