package pathlockd

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestLeaseHeap(t *testing.T) {
	var h leaseHeap
	var all []*lease
	check := func() {
		t.Helper()
		for i, l := range h {
			if l.place != i || i > 0 && h[(i-1)/2].at > l.at {
				t.Fatalf("out of order at %d", i)
			}
		}
	}
	for range 2000 {
		switch n := rand.N(10); {
		case n < 5 || len(all) == 0:
			l := &lease{at: time.Duration(rand.N(1000))}
			h.push(l)
			all = append(all, l)
		case n < 8:
			l := all[rand.N(len(all))]
			l.at = time.Duration(rand.N(1000))
			h.moved(l)
		default:
			i := rand.N(len(all))
			h.remove(all[i])
			all = slices.Delete(all, i, i+1)
		}
		check()
	}
	for _, l := range all {
		l.at = time.Duration(rand.N(1000))
	}
	h.init()
	check()
	if len(h) != len(all) {
		t.Fatalf("%d leases, want %d", len(h), len(all))
	}
}
