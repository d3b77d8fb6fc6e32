package lab

import (
	"reflect"
	"slices"
	"testing"
)

// TestPlan: the same seed gives the same turns and faults, another seed others.
func TestPlan(t *testing.T) {
	kinds := []faultKind{killOne, pause, isolate, stepClock}
	same, other := 0, 0
	for n := range 200 {
		a, b, c := planTurn(7, 1, 2, n, 8), planTurn(7, 1, 2, n, 8), planTurn(8, 1, 2, n, 8)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("turn %d: %+v and %+v", n, a, b)
		}
		if x, y, z := planFault(7, 1, n, kinds, 5), planFault(7, 1, n, kinds, 5), planFault(8, 1, n, kinds, 5); x != y {
			t.Fatalf("fault %d: %+v and %+v", n, x, y)
		} else if x == z {
			same++
		}
		if reflect.DeepEqual(a, c) {
			other++
		}
	}
	if same+other > 2 {
		t.Errorf("%d faults and %d turns of another seed are the same", same, other)
	}
}

// TestFaultsAreDealt: each kind of fault comes in the first two of eleven episodes, whatever else is drawn, and the
// order is another one after that.
func TestFaultsAreDealt(t *testing.T) {
	var kinds []faultKind
	for k := range faultKinds {
		kinds = append(kinds, k)
	}
	if len(kinds) != 22 {
		t.Fatalf("%d kinds: count the episodes anew", len(kinds))
	}
	for seed := range uint64(20) {
		var rounds [3][]faultKind
		for n := range len(kinds) * len(rounds) {
			r := n / len(kinds)
			rounds[r] = append(rounds[r], planFault(seed, n/dealt, n%dealt, kinds, 5).kind)
		}
		for _, r := range rounds {
			came := map[faultKind]bool{}
			for _, k := range r {
				came[k] = true
			}
			if len(came) != len(kinds) {
				t.Errorf("seed %d: %d of %d kinds: %v", seed, len(came), len(kinds), r)
			}
		}
		if slices.Equal(rounds[0], rounds[1]) {
			t.Errorf("seed %d: the same order again: %v", seed, rounds[0])
		}
	}
}
