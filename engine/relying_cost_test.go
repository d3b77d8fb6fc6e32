package engine

import (
	"fmt"
	"testing"
	"time"
)

// TestLapseOfWhoWaits: what an owner gives back last costs no more for what it waits for.
func TestLapseOfWhoWaits(t *testing.T) {
	const some, more, trials = 200, 16_000, 20
	measure := func(n int) (least time.Duration) {
		p := newCostPlayer(t)
		for i := range n {
			p.take("other", fmt.Sprint(costNS, "/w", i))
		}
		for i := range n {
			p.wait("me", fmt.Sprint(costNS, "/w", i))
		}
		least = time.Hour
		for range trials {
			p.take("me", costNS+"/x")
			p.out.Reset()
			least = min(least, spent(func() { p.release("me", costNS+"/x") }))
		}
		return least
	}
	t1, t2 := min(measure(some), measure(some)), min(measure(more), measure(more))
	t.Logf("%v with %d waits, %v with %d", t1, some, t2, more)
	if t2 > costlier*t1 {
		t.Errorf("%v with %d waits, and %v with %d", t1, some, t2, more)
	}
}
