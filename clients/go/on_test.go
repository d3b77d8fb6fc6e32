package pathlockd

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOn: few paths and many are searched in two ways, which find the same.
func TestOn(t *testing.T) {
	for _, n := range []int{1, 8, 9, 100} {
		var some []Path
		for i := range n {
			some = append(some, Path{Path: fmt.Sprintf("a:/b/%d", i), Mode: Read, Permits: uint32(i)})
		}
		is := on(some)
		last := some[n-1].Path
		if !is(Path{Path: last, Mode: Read}) || is(Path{Path: last, Mode: Write}) ||
			is(Path{Path: last + "0", Mode: Read}) {
			t.Errorf("of %d paths: the last one in its mode %v, in another mode %v, another one %v", n,
				is(Path{Path: last, Mode: Read}), is(Path{Path: last, Mode: Write}),
				is(Path{Path: last + "0", Mode: Read}))
		}
	}
}

// TestAnotherGrantIsAnotherHold: since when a path was held is not what tells the hold that a later request took.
func TestAnotherGrantIsAnotherHold(t *testing.T) {
	l := &Lock{paths: []Path{{Path: "a:/b/c", Mode: Read}}}
	for i, one := range []struct {
		since int64
		same  bool
	}{{5, true}, {5, true}, {7, false}} { // the first look tells
		if l.same(0, heldPath{since: one.since}) != one.same {
			t.Errorf("look %d: a hold is known by since when it is held", i)
		}
	}
	l.took(&wire.Result{Namespace: "a:/b"}, &answer{tie: &tie{lane: new(lane)}})
	if !l.same(0, heldPath{since: 7}) {
		t.Error("what was taken anew counts as the earlier hold")
	}
}
