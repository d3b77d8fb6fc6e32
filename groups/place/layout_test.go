package place

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden file anew: a change of it is a change of the format "+
	"of clusters")

// nodeNames are n names as they are by default.
func nodeNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("pathlockd-%d", i))
	}
	return names
}

// logNumbers are raft's numbers of the system log and n logs.
func logNumbers(n int) (logs []uint64) {
	for i := range n + 1 {
		logs = append(logs, uint64(i+1))
	}
	return logs
}

// count is how many voters and leaderships a layout gives to each node.
func count(l Layout, nodes []string) (voters, leads map[string]int) {
	voters, leads = make(map[string]int), make(map[string]int)
	for _, n := range nodes {
		voters[n], leads[n] = 0, 0
	}
	for _, seats := range l {
		leads[seats[0]]++
		for _, n := range seats {
			voters[n]++
		}
	}
	return voters, leads
}

// seatsMoved is how many seats of b are not in a.
func seatsMoved(a, b Layout) (voters, leads int) {
	for log, seats := range b {
		for _, n := range seats {
			if !slices.Contains(a[log], n) {
				voters++
			}
		}
		if len(a[log]) == 0 || a[log][0] != seats[0] {
			leads++
		}
	}
	return voters, leads
}

func TestVoters(t *testing.T) {
	for _, c := range []struct{ members, factor, want int }{
		{0, 3, 0}, {1, 3, 1}, {2, 3, 1}, {3, 3, 3}, {4, 3, 3}, {5, 3, 3}, {4, 5, 3}, {5, 5, 5}, {9, 5, 5},
		{2, 1, 1}, {6, 7, 5}, {15, 15, 15}, {14, 15, 13},
	} {
		if got := Voters(c.members, c.factor); got != c.want {
			t.Errorf("Voters(%d, %d) = %d, want %d", c.members, c.factor, got, c.want)
		}
	}
}

// checkBounds holds a layout against what Place guarantees.
func checkBounds(l Layout, logs []uint64, nodes []string, factor int, fail func(format string, args ...any)) {
	want := Voters(len(nodes), factor)
	for _, log := range logs {
		seats := slices.Sorted(slices.Values(l[log]))
		if len(seats) != want || len(slices.Compact(seats)) != want {
			fail("log %d is on %v, want %d nodes", log, l[log], want)
		}
		for _, n := range seats {
			if !slices.Contains(nodes, n) {
				fail("log %d is on %s, which is no node", log, n)
			}
		}
	}
	voters, leads := count(l, nodes)
	for _, c := range []struct {
		what  string
		by    map[string]int
		total int
	}{{"voters", voters, want * len(logs)}, {"leaderships", leads, len(logs)}} {
		low, high := c.total/len(nodes), (c.total+len(nodes)-1)/len(nodes)
		for n, k := range c.by {
			if k < low || k > high {
				fail("%d nodes, %d logs, factor %d: %s has %d %s, want %d to %d", len(nodes), len(logs), factor, n, k,
					c.what, low, high)
			}
		}
	}
}

// TestLayoutKeepsItsBounds holds Place against what it guarantees for any names and numbers, and for all small
// clusters.
func TestLayoutKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z.-]{1,12}[0-9]`), 1, 24,
			rapid.ID[string]).Draw(t, "nodes")
		logs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 200), 1, 64, rapid.ID[uint64]).Draw(t, "logs")
		factor := 2*rapid.IntRange(0, 4).Draw(t, "factor") + 1
		checkBounds(Place(logs, names, factor), logs, names, factor, t.Fatalf)
	})
	for nodes := 1; nodes <= 20; nodes++ {
		for logs := 1; logs <= 65; logs += 4 {
			for _, factor := range []int{1, 3, 5} {
				names, numbers := nodeNames(nodes), logNumbers(logs-1)
				checkBounds(Place(numbers, names, factor), numbers, names, factor, t.Fatalf)
			}
		}
	}
}

// TestLayoutDependsOnSetsAlone says that neither order nor doubles matter.
func TestLayoutDependsOnSetsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := nodeNames(rapid.IntRange(1, 12).Draw(t, "nodes"))
		logs := logNumbers(rapid.IntRange(1, 32).Draw(t, "logs"))
		want := Place(logs, names, 3)
		again := Place(rapid.Permutation(append(logs, logs[0])).Draw(t, "logs' order"),
			rapid.Permutation(append(names, names[0])).Draw(t, "nodes' order"), 3)
		if !maps.EqualFunc(want, again, slices.Equal) {
			t.Fatalf("%v, in another order %v", want, again)
		}
	})
}

// TestLayoutIsPinned holds layouts against a golden file: nodes of neighbouring
// versions must agree on them.
func TestLayoutIsPinned(t *testing.T) {
	const golden = "testdata/layout.txt"
	var b strings.Builder
	for _, nodes := range []int{1, 2, 3, 4, 5, 7} {
		l := Place(logNumbers(16), nodeNames(nodes), 3)
		for _, log := range slices.Sorted(maps.Keys(l)) {
			fmt.Fprintf(&b, "%d nodes, log %d: %s\n", nodes, log, strings.Join(l[log], " "))
		}
	}
	l := Place(logNumbers(40), []string{"eu-a.0", "eu-b.0", "us-a.1", "us-b.1", "ap-a.2", "ap-b.2", "x9", "y9", "z9"},
		5)
	for _, log := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "9 names, factor 5, log %d: %s\n", log, strings.Join(l[log], " "))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("layouts differ from %s: that is a change of the format of clusters, which nodes of the version "+
			"before do not share", golden)
	}
}

// TestLayoutMovesLittle bounds what moves when one of n nodes comes or goes, over
// many sets of names: the share of an even layout is 1/n. The bounds are what was
// measured and a margin; docs/scaling.md has the figures.
func TestLayoutMovesLittle(t *testing.T) {
	for _, c := range []struct {
		nodes, logs  int
		voters, lead float64 // of an even share, at most
	}{
		{4, 16, 1.5, 2.5}, {5, 16, 1.5, 2.5}, {5, 64, 1.3, 2.5}, {7, 64, 1.4, 3}, {10, 64, 1.6, 3}, {20, 64, 2.2, 4},
	} {
		logs, names := logNumbers(c.logs), nodeNames(c.nodes)
		full := Place(logs, names, 3)
		voters, leads := 0, 0
		for i := range names {
			less := slices.Concat(names[:i], names[i+1:])
			v, l := seatsMoved(Place(logs, less, 3), full)
			voters, leads = voters+v, leads+l
		}
		// Over all nodes, as many seats must move as there are.
		v, l := float64(voters)/float64(3*len(logs)), float64(leads)/float64(len(logs))
		t.Logf("%d nodes, %d logs: %.2f of the least voters, %.2f of the least leaderships", c.nodes, c.logs, v, l)
		if v > c.voters || l > c.lead {
			t.Errorf("%d nodes, %d logs: %.2f times the least voters move, and %.2f times the least leaderships; "+
				"want at most %.2f and %.2f",
				c.nodes, c.logs, v, l, c.voters, c.lead)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct{ nodes, logs int }{{5, 16}, {50, 64}, {500, 1024}} {
		b.Run(fmt.Sprintf("nodes=%d/logs=%d", c.nodes, c.logs), func(b *testing.B) {
			logs, names := logNumbers(c.logs), nodeNames(c.nodes)
			b.ReportAllocs()
			for b.Loop() {
				Place(logs, names, 3)
			}
		})
	}
}
