package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestEndsOfManyKeysOfOne: a polled place was asked for with very many keys. The end of a kept answer costs no more for
// the others.
func TestEndsOfManyKeysOfOne(t *testing.T) {
	const some, more = DefaultReapBudget, 60_000
	measure := func(n int) time.Duration {
		p := newCostPlayer(t)
		p.take("other", costMutex)
		for i := range n {
			p.acq.Key = fmt.Sprint("key-", i)
			p.ask("me", costMutex, wire.StatusQueued)
		}
		p.now += KeptMillis + 1
		p.out.Reset()
		return spent(func() { p.s.Expire(Clock{Now: p.now}, &p.out) })
	}
	least := func(n int) time.Duration { return min(measure(n), measure(n), measure(n)) }
	t1, t2 := least(some), least(more)
	t.Logf("%d ends take %v of %d, %v of %d", DefaultReapBudget, t1, some, t2, more)
	if t2 > 4*costlier*t1 { // 4: memory that is far apart; without what is tested it is some hundred times as much
		t.Errorf("%d ends take %v of %d, and %v of %d", DefaultReapBudget, t1, some, t2, more)
	}
}
