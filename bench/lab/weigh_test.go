package lab

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// TestFewPairsWait: pairs that are too few for a verdict wait for those of later episodes,
// and count in one verdict alone.
func TestFewPairsWait(t *testing.T) {
	seen := func(looks, pages int) []history.Cost {
		pairs := make([]history.Pair, 100)
		for i := range pairs {
			pairs[i] = history.Pair{Much: time.Second, Little: time.Second}
		}
		return []history.Cost{{Kind: "look", Pairs: pairs[:looks:looks]}, {Kind: "page", Pairs: pairs[:pages:pages]}}
	}
	r := &Report{Weighed: make(map[string]int)}
	var few []history.Cost
	for i, e := range []struct{ looks, pages, verdicts, waiting int }{{15, 50, 1, 15}, {3, 50, 2, 18}, {4, 50, 4, 0},
		{19, 2, 4, 21}, {0, 0, 4, 21}} {
		few = r.verdicts(merged(few, seen(e.looks, e.pages)))
		waiting := 0
		for j := range few {
			waiting += len(few[j].Pairs)
		}
		if got := r.Weighed["look"] + r.Weighed["page"]; got != e.verdicts || waiting != e.waiting {
			t.Errorf("episode %d: %d verdicts and %d pairs that wait, want %d and %d", i, got, waiting,
				e.verdicts, e.waiting)
		}
	}
}
