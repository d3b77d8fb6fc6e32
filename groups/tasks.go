package groups

import (
	"sync/atomic"
	"time"
)

// tasks is how a node does several things at once. Whatever waits while it serves
// requests does so through it, so that the simulation can have one thing happen at a
// time, in an order that its seed decides. goroutines are the machine's own.
type tasks interface {
	// run runs f beside the caller.
	run(f func())
	// wait receives from the first of on, of at most four, that can be received from, and
	// returns its place, or -1 once d is over.
	wait(d time.Duration, on ...<-chan struct{}) int
}

// goroutines runs each task as a goroutine.
type goroutines struct{}

func (goroutines) run(f func()) { go f() }

func (goroutines) wait(d time.Duration, on ...<-chan struct{}) int {
	var c [4]<-chan struct{} // nil ones are never received from
	copy(c[:], on)
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c[0]:
		return 0
	case <-c[1]:
		return 1
	case <-c[2]:
		return 2
	case <-c[3]:
		return 3
	case <-late.C:
		return -1
	}
}

// forever is longer than anything is waited for.
const forever = 1 << 62 * time.Nanosecond

// every calls f every so often until the node stops.
func (n *Node) every(d time.Duration, f func()) {
	for n.tasks.wait(d, n.stop) < 0 {
		f()
	}
}

// together is a wait for several things that are under way.
type together struct {
	tasks tasks
	left  atomic.Int32 // of them, and one for wait
	over  chan struct{}
}

func newTogether(t tasks) *together {
	w := &together{tasks: t, over: make(chan struct{})}
	w.left.Store(1)
	return w
}

// add counts one more thing in; done counts it out.
func (w *together) add() { w.left.Add(1) }

func (w *together) done() {
	if w.left.Add(-1) == 0 {
		close(w.over)
	}
}

// run runs f as one of them.
func (w *together) run(f func()) {
	w.add()
	w.tasks.run(func() {
		defer w.done()
		f()
	})
}

// wait waits for all of them. It is called once.
func (w *together) wait() { w.waitFor(forever) }

// waitFor is wait, but for no longer than d.
func (w *together) waitFor(d time.Duration) {
	w.done()
	select {
	case <-w.over:
	default:
		w.tasks.wait(d, w.over)
	}
}
