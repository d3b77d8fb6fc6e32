package cost

import (
	"fmt"
	"runtime"
	"time"
)

// Pair is what an acquire and a release of a path cost together.
type Pair struct {
	Nanos  float64
	Allocs float64
	Bytes  float64 // allocated
}

const (
	// pairPaths is how many paths are taken in turn. Then there is a checkpoint.
	pairPaths = 1 << 17
	// pairOwners is how many owners take them in turn.
	pairOwners = 1024
)

// Pairs measures acquire and release of paths that nobody else wants, beside the
// first `held` paths, which are held: rounds times, n of them each; the medians. With
// snapshot, a view is taken of each batch, as readers would.
//
// The checkpoints in between are not timed: they are not Apply's.
func (g *Group) Pairs(held, n, rounds int, snapshot bool) Pair {
	paths, owners := make([]string, pairPaths), make([]string, pairOwners)
	for i := range paths {
		paths[i] = pathOf(held + i)
	}
	for i := range owners {
		owners[i] = fmt.Sprintf("worker-%d", i)
	}
	var nanos, allocs, size []float64
	next := 0
	for range rounds {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var took time.Duration
		for done := 0; done < n; done += batch {
			began := time.Now()
			if snapshot {
				g.state.View()
			}
			g.pairs(paths[next:next+batch], owners)
			took += time.Since(began)
			if next += batch; next+batch > pairPaths {
				next = 0
				g.written()
			}
		}
		runtime.ReadMemStats(&after)
		nanos = append(nanos, float64(took.Nanoseconds())/float64(n))
		allocs = append(allocs, float64(after.Mallocs-before.Mallocs)/float64(n))
		size = append(size, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	}
	return Pair{median(nanos), median(allocs), median(size)}
}

// pairs is one batch: it takes some paths and then lets them go.
func (g *Group) pairs(paths, owners []string) {
	for i, path := range paths {
		g.acquire(owners[i%len(owners)], path, namespaceBytes)
	}
	for i, path := range paths {
		g.release(owners[i%len(owners)], path, namespaceBytes)
	}
}
