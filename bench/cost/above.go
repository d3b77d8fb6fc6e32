package cost

import (
	"fmt"
	"runtime"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The paths of Tree.
const (
	treeNS   = "bench:/tree"
	treePath = treeNS + "/projects/above"
	treeSide = treeNS + "/projects/below"
	treeSelf = "self"
	// treeBusy is how many paths are waited for, elsewhere.
	treeBusy = 1000
)

// Tree is a state in which one owner holds many locks below one path, and locks
// that path now, or one beside them.
type Tree struct{ g *Group }

// NewTree makes one with n locks below the path.
func NewTree(n int) Tree {
	t := Tree{NewGroup()}
	for i := range n {
		path := fmt.Sprintf("%s/d%03d/f%07d", treePath, i%1000, i)
		if t.g.acquire(treeSelf, path, len(treeNS)) != wire.StatusOK {
			panic("cost: a path that nobody holds is not granted")
		}
	}
	t.g.written()
	return t
}

// Queue adds n acquires that wait, elsewhere in the same namespace.
func (t Tree) Queue(n int) {
	path := func(i int) string { return fmt.Sprintf("%s/busy/p%04d", treeNS, i) }
	busy := min(treeBusy, n)
	for i := range busy {
		t.g.acquire("holder", path(i), len(treeNS)) // the same again, the second time
	}
	first := int(t.g.nextID)
	for i := first; i < first+n; i++ {
		t.g.wait(fmt.Sprintf("waiter-%07d", i), path(i%busy), len(treeNS))
	}
	t.g.written()
}

// Write measures an acquire and release of the path above the locks, and of one
// beside them, in turns: rounds of n each. It answers the medians in ns.
func (t Tree) Write(n, rounds int) (above, beside float64) {
	runtime.GC() // of what was made before: a collection takes one of two cores, and its time
	var up, side []float64
	for range rounds {
		up = append(up, t.write(treePath, n))
		side = append(side, t.write(treeSide, n))
	}
	return median(up), median(side)
}

// CompareWrites measures an acquire and release of the path above the locks in two
// states in turns, as Write does: what the machine does in the meantime falls on both.
func CompareWrites(a, b Tree, n, rounds int) (aNanos, bNanos float64) {
	runtime.GC()
	var as, bs []float64
	for range rounds {
		as, bs = append(as, a.write(treePath, n)), append(bs, b.write(treePath, n))
	}
	return median(as), median(bs)
}

// write measures one round.
func (t Tree) write(path string, n int) float64 {
	began := time.Now()
	for range n {
		if t.g.acquire(treeSelf, path, len(treeNS)) != wire.StatusOK {
			panic("cost: an owner's own locks keep it waiting")
		}
		t.g.release(treeSelf, path, len(treeNS))
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}
