package cost

import (
	"fmt"
	"testing"
)

// Sizes that take a moment. The budgets are measured with those of `bench budgets`.
const (
	smallHeld  = 5000
	smallQueue = 300
	smallSteps = 500
)

// TestHeld: what is measured is a state with that many locks, whose memory is
// counted: a lock's path alone is some 28 bytes.
func TestHeld(t *testing.T) {
	g, bytes := HeldHeap(smallHeld, 100)
	if locks, waiting := g.state.Counts(); locks != smallHeld || waiting != 0 {
		t.Errorf("%d locks are held and %d paths waited for", locks, waiting)
	}
	if bytes < 28 || bytes > 10_000 {
		t.Errorf("a lock takes %.0f B", bytes)
	}
	for _, snapshot := range []bool{false, true} {
		p := g.Pairs(smallHeld, smallSteps, 3, snapshot)
		if p.Nanos <= 0 || p.Allocs <= 0 || p.Bytes <= 0 {
			t.Errorf("a pair costs nothing: %+v", p)
		}
		if locks, _ := g.state.Counts(); locks != smallHeld {
			t.Errorf("after pairs %d locks are held: they were not released", locks)
		}
	}
}

// TestTree: the locks below are there, and so are the waiters elsewhere.
func TestTree(t *testing.T) {
	tree := NewTree(smallHeld)
	tree.Queue(10)
	tree.Queue(smallQueue)
	above, beside := tree.Write(smallSteps, 3)
	if above <= 0 || beside <= 0 {
		t.Errorf("a write lock costs nothing: %g, %g ns", above, beside)
	}
	busy := min(treeBusy, smallQueue)
	if locks, waiting := tree.g.state.Counts(); locks != smallHeld+busy || waiting != smallQueue+10 {
		t.Errorf("%d locks are held, want %d, and %d paths waited for, want %d", locks, smallHeld+busy, waiting,
			smallQueue+10)
	}
}

// TestMutex: passing keeps the queue as long as it was. That the mutex goes to who
// waits longest is checked by pass itself.
func TestMutex(t *testing.T) {
	few, many := NewMutex(10), NewMutex(smallQueue)
	a, b := Compare(few, many, smallSteps, 3)
	if a <= 0 || b <= 0 {
		t.Errorf("a hand-over costs nothing: %g, %g ns", a, b)
	}
	if locks, waiting := many.g.state.Counts(); locks != 1 || waiting != smallQueue {
		t.Errorf("%d hold it and %d wait", locks, waiting)
	}
}

// BenchmarkHandover is a hand-over of a mutex with few and with many waiters.
func BenchmarkHandover(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			m := NewMutex(n)
			b.ReportAllocs()
			b.ResetTimer()
			m.passes(b.N)
		})
	}
}
