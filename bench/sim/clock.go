package sim

import (
	"container/heap"
	"time"
)

// event is something that will happen.
type event struct {
	at  time.Duration
	seq int // of two at one time the one that was set first is first
	do  func()
}

// events is a heap of them.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push and Pop are heap's.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop is heap's.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// at has something happen at a time, and not before now.
func (w *World) at(t time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{max(t, w.now), w.seq, do})
}

// after has something happen later.
func (w *World) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// run lets time pass until a moment.
func (w *World) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// chance draws a time below d.
func (w *World) chance(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rand.Int64N(int64(d)))
}
