package engine

import (
	"fmt"
	"testing"
	"time"
)

// TestManyWaitsOverAtOnce: very many wait for one path, and the time of all of them is over at once. The step that ends
// them costs in proportion to them.
func TestManyWaitsOverAtOnce(t *testing.T) {
	const some, more, trials = 500, 4000, 3
	measure := func(n int) (least time.Duration) {
		least = time.Hour
		for range trials {
			p := newCostPlayer(t)
			p.take("other", costMutex)
			p.acq.QueueTTLMillis = 1000
			p.each(n, func(i int) { p.wait(fmt.Sprint("w", i), costMutex) })
			p.now += 2000
			p.out.Reset()
			least = min(least, spent(func() { p.s.Expire(Clock{Now: p.now}, &p.out) }))
		}
		return least
	}
	t1, t2 := measure(some), measure(more)
	t.Logf("%v with %d, %v with %d", t1, some, t2, more)
	if t2 > 3*more/some*t1 {
		t.Errorf("%v with %d, and %v with %d", t1, some, t2, more)
	}
}
