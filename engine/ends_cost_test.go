package engine

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestManyWaitsThatLackAnother: an owner waits very many times for one path, and each of these waits lacks another
// path. The end of one costs no more for those behind it; a release of the path looks at each of them once, and at none
// for each.
func TestManyWaitsThatLackAnother(t *testing.T) {
	const some, more, trials = 200, 3200, 20
	for name, c := range map[string]struct {
		costlier time.Duration
		step     func(p *costPlayer, call uint64)
	}{
		"end":     {costlier, func(p *costPlayer, call uint64) { p.cancel(call) }},
		"release": {4 * more / some, func(p *costPlayer, _ uint64) { p.release("holder", costMutex) }},
	} {
		t.Run(name, func(t *testing.T) {
			measure := func(n int) (least time.Duration) {
				p := newCostPlayer(t)
				p.take("other", costNS+"/y")
				p.take("holder", costMutex)
				first := p.calls + 1
				p.acq.Locks = []wire.LockRequest{{}, {Path: costNS + "/y"}}
				p.each(n, func(int) { p.wait("me", costMutex) })
				if name == "end" {
					p.release("holder", costMutex)
				}
				least = time.Hour
				for i := range trials {
					p.out.Reset()
					least = min(least, spent(func() { c.step(p, first+uint64(i)) }))
					if name == "release" {
						break // there is one
					}
				}
				return least
			}
			t1, t2 := min(measure(some), measure(some), measure(some)), min(measure(more), measure(more), measure(more))
			t.Logf("%v with %d, %v with %d", t1, some, t2, more)
			if t2 > c.costlier*t1 {
				t.Errorf("%v with %d, and %v with %d", t1, some, t2, more)
			}
		})
	}
}
