package lab

import (
	"reflect"
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
