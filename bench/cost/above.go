package cost

import (
	"fmt"
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
	var up, side []float64
	for range rounds {
		up = append(up, t.write(treePath, n))
		side = append(side, t.write(treeSide, n))
	}
	return median(up), median(side)
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
