package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestLooksAgainInTime: the driver of a log looks for those that waited too long as often as it says, though it is
// woken in between, and has looked after something else (simulation, seed 811444: somebody was told up to 2 s late).
func TestLooksAgainInTime(t *testing.T) {
	l := newBare(t, rows.FirstLog, replica.DefaultLimits()).l
	every := min(l.timeout/4, waitSlack)
	for _, part := range []time.Duration{2, 3, 4} { // woken when this part of the time is left
		l.looked = l.clock.Mono() - every + every/part
		if d := l.pause(); d > every/part {
			t.Errorf("it looks %v after the last time, and not after %v", every-every/part+d, every)
		}
	}
}
