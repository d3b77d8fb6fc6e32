package daemon

import "testing"

// TestRunOf: event ids of different nodes, and of different starts of one, never share
// a range, and those of the first start of the default node begin at 1.
func TestRunOf(t *testing.T) {
	if got := runOf("pathlockd-0", 1); got != 0 {
		t.Errorf("the first run of pathlockd-0 is number %d", got)
	}
	seen := make(map[uint64]string)
	for _, node := range []string{"pathlockd-0", "pathlockd-1", "pathlockd-2", "pathlockd-1023"} {
		last := uint64(0)
		for start := uint64(1); start <= 2048; start++ {
			run := runOf(node, start)
			if run >= 1<<21 {
				t.Fatalf("%s start %d: number %d does not fit below 2^21", node, start, run)
			}
			if other, twice := seen[run]; twice {
				t.Fatalf("%s start %d has the number of %s", node, start, other)
			}
			if start > 1 && run <= last {
				t.Fatalf("%s start %d: number %d after %d", node, start, run, last)
			}
			seen[run], last = node, run
		}
	}
	if runOf("a-0", 1) == runOf("b-0", 1) {
		t.Error("nodes of different prefixes share a number")
	}
}
