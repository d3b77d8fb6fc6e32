package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestResolve is contract.md section 3, line by line.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		k     int
		roots string
		path  string
		want  string
	}{
		// Otherwise handler + first K segments.
		{1, "", "h:/a", "h:/a"},
		{1, "", "h:/a/b/c", "h:/a"},
		{2, "", "h:/a/b/c", "h:/a/b"},
		{3, "", "h:/a/b/c", "h:/a/b/c"},
		// K = 0: the handler alone.
		{0, "", "h:/a/b", "h"},
		{0, "", "h:/", "h"},
		// A path with fewer segments is its own namespace.
		{1, "", "h:/", "h:/"},
		{2, "", "h:/", "h:/"},
		{2, "", "h:/a", "h:/a"},
		{3, "", "h:/a/b", "h:/a/b"},
		// The longest explicit namespace root that contains the path wins.
		{1, "h:/a/b", "h:/a/b", "h:/a/b"},
		{1, "h:/a/b", "h:/a/b/c/d", "h:/a/b"},
		{1, "h:/a/b", "h:/a", "h:/a"},
		{1, "h:/a/b", "h:/a/c", "h:/a"},
		{1, "h:/a/b h:/a/b/c/d h", "h:/a/b/c/d/e", "h:/a/b/c/d"},
		{1, "h:/a/b h:/a/b/c/d h", "h:/a/b/c", "h:/a/b"},
		{1, "h:/a/b h:/a/b/c/d h", "h:/a/x", "h"},
		{2, "h:/a", "h:/a/b/c", "h:/a"},
		{2, "h:/a", "h:/b/b/c", "h:/b/b"},
		{0, "h:/a", "h:/a/b", "h:/a"},
		{0, "h:/a", "h:/b", "h"},
		// By whole segments: h:/a holds h:/a/b, not h:/ab.
		{2, "h:/a", "h:/ab/c", "h:/ab/c"},
		{1, "h:/a/b", "h:/a/bc", "h:/a"},
		{1, "h:/a/b", "h:/a/b-c", "h:/a"},
		// The handler root h holds all of h:, and no other handler.
		{1, "h", "h:/", "h"},
		{1, "h", "h:/a/b", "h"},
		{1, "h", "hh:/a/b", "hh:/a"},
		{1, "hh", "h:/a/b", "h:/a"},
		// So does the root h:/, once set, which wins over h; roots below it win over both.
		{1, "h:/", "h:/", "h:/"},
		{1, "h:/", "h:/a", "h:/"},
		{1, "h:/", "h:/a/b", "h:/"},
		{1, "h:/", "hh:/a", "hh:/a"},
		{1, "h h:/", "h:/", "h:/"},
		{1, "h h:/", "h:/a", "h:/"},
		{1, "h:/ h:/a", "h:/a/b", "h:/a"},
		{1, "h:/ h:/a/b", "h:/a/b/c", "h:/a/b"},
		{1, "h:/ h:/a/b", "h:/a/c", "h:/"},
		{3, "h:/", "h:/a/b/c/d", "h:/"},
		{0, "h:/", "h:/a", "h:/"},
		// Later colons are plain characters.
		{1, "h:/a:b", "h:/a:b/c", "h:/a:b"},
		{2, "h:/a:b", "h:/a/b:c", "h:/a/b:c"},
	} {
		r := NewRoutes(1, c.k, strings.Fields(c.roots))
		if got := r.Resolve(c.path); got != c.want {
			t.Errorf("K=%d roots [%s]: %s is in %q, want %q", c.k, c.roots, c.path, got, c.want)
		}
	}
}

// TestMoves is contract.md section 4: which Set or Delete changes the namespace of
// some path.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		k     int
		roots string
		root  string
		want  bool
	}{
		// With K=1 h:/a/b, h and h:/, not h:/a.
		{1, "", "h:/a/b", true},
		{1, "", "h", true},
		{1, "", "h:/a", false},
		{1, "", "h:/", true},
		// To give one up is to move its paths back.
		{1, "h:/a/b", "h:/a/b", true},
		{1, "h", "h", true},
		{1, "h:/a", "h:/a", false},
		{1, "h:/", "h:/", true},
		// What the paths are routed to without it counts, chosen roots included.
		{1, "h", "h:/a", true},
		{1, "h", "h:/", true},
		{1, "h h:/a", "h:/a", true},
		{1, "h:/", "h", false},
		{1, "h h:/", "h", false},
		{1, "h h:/", "h:/", true},
		{1, "h:/", "h:/a", true},
		{1, "h:/a/b", "h:/a", false},
		{1, "h:/a", "h:/a/b", true},
		// Other depths.
		{2, "", "h:/a", true},
		{2, "", "h:/a/b", false},
		{2, "", "h:/a/b/c", true},
		{2, "", "h:/", true},
		{2, "h:/a", "h:/a/b", true},
		{0, "", "h", false},
		{0, "", "h:/", true},
		{0, "h", "h:/", true},
		{0, "", "h:/a", true},
		{0, "h:/a", "h", false},
	} {
		r := NewRoutes(1, c.k, strings.Fields(c.roots))
		if got := r.Moves(c.root); got != c.want {
			t.Errorf("K=%d roots [%s]: Moves(%s) = %v", c.k, c.roots, c.root, got)
		}
	}
}

func TestParent(t *testing.T) {
	for _, c := range []struct {
		k     int
		roots string
		root  string
		want  string
	}{
		{1, "", "h:/a/b", "h:/a"},
		{1, "h:/a/b", "h:/a/b", "h:/a"},
		{1, "h:/a/b h:/a/b/c", "h:/a/b/c", "h:/a/b"},
		{1, "h", "h:/a", "h"},
		{1, "h h:/", "h:/", "h"},
		{1, "h:/", "h:/a", "h:/"},
		{1, "h h:/", "h:/a", "h:/"},
		{0, "", "h:/", "h"},
		{2, "", "h:/a/b/c", "h:/a/b"},
		{2, "h", "h:/a", "h"},
		{0, "h:/a", "h:/a", "h"},
		// They belong to many.
		{1, "", "h", ""},
		{1, "", "h:/", ""},
		{1, "h:/ h:/a", "h:/", ""},
		{2, "", "h:/a", ""},
		{3, "h:/a", "h:/a", ""},
	} {
		r := NewRoutes(1, c.k, strings.Fields(c.roots))
		if got := r.Parent(c.root); got != c.want {
			t.Errorf("K=%d roots [%s]: Parent(%s) = %q, want %q", c.k, c.roots, c.root, got, c.want)
		}
	}
}

// slowResolve is contract.md section 3 word by word: all roots are looked at.
func slowResolve(k int, roots []string, path string) string {
	longest := ""
	for _, r := range roots {
		holds := path == r || strings.HasPrefix(path, r+"/")
		if handler, _ := strings.CutSuffix(r, ":/"); !strings.Contains(handler, ":") {
			holds = strings.HasPrefix(path, handler+":") // h or h:/
		}
		if holds && len(r) > len(longest) {
			longest = r
		}
	}
	if longest != "" {
		return longest
	}
	handler, rest, _ := strings.Cut(path, ":/")
	if k == 0 {
		return handler
	}
	segs := strings.Split(rest, "/")
	if len(segs) <= k {
		return path
	}
	return handler + ":/" + strings.Join(segs[:k], "/")
}

// choices are a few roots, and everyChoice each choice of them under each of a few
// routing_prefix_segments.
var choices = []string{"h", "h:/", "h:/a", "h:/a/b", "h:/a/b/a", "h:/b", "g"}

func everyChoice(try func(k int, roots []string)) {
	for k := range 4 {
		for set := range 1 << len(choices) {
			var roots []string
			for i, n := range choices {
				if set>>i&1 == 1 {
					roots = append(roots, n)
				}
			}
			try(k, roots)
		}
	}
}

// TestRoutesExhaustively compares with slowResolve for every choice of a few
// roots, and holds Moves and Parent against what they say of all paths.
func TestRoutesExhaustively(t *testing.T) {
	paths := []string{"h:/", "h:/ab", "h:/a/ba", "g:/a", "gh:/a"}
	for level := []string{"h:"}; len(level) < 40; {
		var next []string
		for _, p := range level {
			next = append(next, p+"/a", p+"/b")
		}
		paths = append(paths, next...)
		level = next
	}
	everyChoice(func(k int, roots []string) {
		r := NewRoutes(1, k, roots)
		for _, p := range paths {
			if got, want := r.Resolve(p), slowResolve(k, roots, p); got != want {
				t.Fatalf("K=%d roots %v: %s is in %q, want %q", k, roots, p, got, want)
			}
		}
		for _, root := range choices {
			checkMove(t, k, roots, root, paths)
		}
	})
}

// checkMove compares where paths lie with a root and without it.
func checkMove(t *testing.T, k int, roots []string, root string, paths []string) {
	without := slices.DeleteFunc(slices.Clone(roots), func(r string) bool { return r == root })
	with := append(slices.Clone(without), root)
	moves, parents := false, make(map[string]bool)
	for _, p := range paths {
		before, after := slowResolve(k, without, p), slowResolve(k, with, p)
		moves = moves || before != after
		if after == root {
			parents[before] = true
		}
	}
	r := NewRoutes(1, k, roots)
	if r.Moves(root) != moves {
		t.Fatalf("K=%d roots %v: Moves(%s) = %v", k, roots, root, !moves)
	}
	if p := r.Parent(root); moves && p != "" && (len(parents) != 1 || !parents[p]) {
		t.Fatalf("K=%d roots %v: Parent(%s) = %s, its paths come from %v", k, roots, root, p, parents)
	}
}

// TestPlacementNeverChanges: where a namespace and an owner live is fixed when a
// cluster is founded. A change of these values is a change of the format.
func TestPlacementNeverChanges(t *testing.T) {
	for _, c := range []struct {
		name             string
		of256, of16, of7 uint16 // GroupOf that many groups
		home256, home16  uint16 // HomeOf
	}{
		{"h", 67, 8, 3, 189, 3},
		{"h:/", 188, 0, 0, 87, 10},
		{"h:/a", 20, 12, 5, 25, 0},
		{"h:/a/b", 208, 2, 2, 163, 10},
		{"tenant:/acme", 238, 4, 4, 103, 7},
		{"tenant:/acme/projects/42", 229, 12, 0, 87, 9},
		{"A", 209, 14, 1, 35, 7},
		{"owner-1", 254, 7, 3, 194, 2},
		{"host-7/1234", 142, 5, 5, 79, 11},
		{"ключ:/ä", 246, 15, 5, 123, 3},
		{strings.Repeat("x", 1024), 83, 4, 4, 39, 3},
	} {
		got := [...]uint16{GroupOf(c.name, 256), GroupOf(c.name, 16), GroupOf(c.name, 7), HomeOf(c.name, 256),
			HomeOf(c.name, 16)}
		want := [...]uint16{c.of256, c.of16, c.of7, c.home256, c.home16}
		if got != want {
			t.Errorf("%q lives in %v, was born in %v", c.name, got, want)
		}
	}
}

// chiSquare is the statistic of counts against an even spread.
func chiSquare(counts []int, total int) (x float64) {
	even := float64(total) / float64(len(counts))
	for _, n := range counts {
		x += (float64(n) - even) * (float64(n) - even) / even
	}
	return x
}

// TestPlacementIsEven: names as people choose them spread like random numbers. Of
// a chi-square variable with 255 degrees of freedom (mean 255, deviation 22.6)
// one in a million is above 375.
func TestPlacementIsEven(t *testing.T) {
	const names, groups, bound = 100_000, 256, 375
	for format, place := range map[string]func(string, int) uint16{
		"h:/tenant-%d": GroupOf, "tenant:/%d": GroupOf, "%x": GroupOf, "h:/a/%08d/x": GroupOf,
		"owner-%d": HomeOf, "%d": HomeOf,
	} {
		counts := make([]int, groups)
		for i := range names {
			counts[place(fmt.Sprintf(format, i), groups)]++
		}
		if x := chiSquare(counts, names); x > bound {
			t.Errorf("%s: chi-square %.0f, want at most %d", format, x, bound)
		}
	}
}

// TestPlacementIsRendezvous: with one group more, names move to that one alone.
func TestPlacementIsRendezvous(t *testing.T) {
	const names, groups = 20_000, 64
	moved := 0
	for i := range names {
		ns := fmt.Sprintf("h:/%d", i)
		switch was, is := GroupOf(ns, groups), GroupOf(ns, groups+1); {
		case was == is:
		case is != groups:
			t.Fatalf("%s went from %d to %d, of %d groups", ns, was, is, groups+1)
		default:
			moved++
		}
	}
	if even := names / (groups + 1); moved < even*3/4 || moved > even*5/4 {
		t.Errorf("%d of %d names moved to the new group, want about %d", moved, names, even)
	}
}

// TestTopologyRoots: a topology tells what does not follow from the first segments.
func TestTopologyRoots(t *testing.T) {
	for _, c := range []struct {
		k     int
		roots string
		want  string
	}{
		{1, "", ""},
		{1, "h:/a h:/b g:/", "g:/"},
		{1, "h:/a h:/b/c g h:/", "g h:/ h:/a h:/b/c"},
		{1, "h h:/a g:/a h:/", "h h:/ h:/a"},
		{2, "h:/a h:/a/b h:/a/b/c h:/b/c", "h:/a h:/a/b h:/a/b/c"},
		{0, "h g:/a", "g:/a"},
		{0, "h", ""},
		{0, "h h:/", "h:/"},
	} {
		r := NewRoutes(1, c.k, strings.Fields(c.roots))
		if got := strings.Join(r.TopologyRoots(), " "); got != c.want {
			t.Errorf("K=%d roots [%s]: tells [%s], want [%s]", c.k, c.roots, got, c.want)
		}
	}
	var many []string
	for i := range MaxTopologyRoots {
		many = append(many, fmt.Sprintf("h:/%d/x", i))
	}
	if got := NewRoutes(1, 1, many).TopologyRoots(); len(got) != MaxTopologyRoots {
		t.Errorf("of %d roots %d are told", len(many), len(got))
	}
	if got := NewRoutes(1, 1, append(many, "h:/more/x")).TopologyRoots(); got != nil {
		t.Errorf("of %d roots %d are told, want none", len(many)+1, len(got))
	}
}

// TestTopologyRootsRouteAlike: with the roots that are told, every path lies where it
// lies with all of them.
func TestTopologyRootsRouteAlike(t *testing.T) {
	paths := []string{"h:/", "h:/a", "h:/b", "h:/ab", "h:/a/a", "h:/a/b", "h:/a/b/a", "h:/a/b/b", "h:/a/b/a/a",
		"h:/b/a/b/a", "g:/a/b"}
	everyChoice(func(k int, roots []string) {
		all := NewRoutes(1, k, roots)
		told := NewRoutes(1, k, all.TopologyRoots())
		for _, p := range paths {
			if got, want := told.Resolve(p), all.Resolve(p); got != want {
				t.Fatalf("K=%d roots %v, told %v: %s is in %q, want %q", k, roots, told.Roots(), p, got, want)
			}
		}
	})
}
