package main

import (
	"fmt"

	"github.com/pathlockd/pathlockd/bench/cost"
	"github.com/pathlockd/pathlockd/groups"
)

// fewWaiters is the short queue that the long one is compared with.
const fewWaiters = 10

// fill makes the group with all locks held, once.
func (s *suite) fill() {
	if s.full == nil {
		groups.TuneCollector() // as the server does
		s.say("taking %d locks by %d owners", s.held, s.owners)
		s.full, s.bytes = cost.HeldHeap(s.held, s.owners)
	}
}

// engineHeap is the heap of a held lock in the state itself.
func (s *suite) engineHeap() (outcome, error) {
	s.fill()
	return outcome{s.bytes, fmt.Sprintf("%d locks of %d owners", s.held, s.owners)}, nil
}

// apply is an acquire and a release in batches of 100, in µs.
func (s *suite) apply() (outcome, error) {
	s.fill()
	s.pair = s.full.Pairs(s.held, s.steps, s.trials, false)
	return outcome{s.pair.Nanos / 1000, fmt.Sprintf("acquire and release, %.0f B allocated; %d locks held, "+
		"batches of 100", s.pair.Bytes, s.held)}, nil
}

// applyAllocs is how many allocations that makes.
func (s *suite) applyAllocs() (outcome, error) {
	s.fill()
	if s.pair == (cost.Pair{}) {
		s.pair = s.full.Pairs(s.held, s.steps, s.trials, false)
	}
	return outcome{s.pair.Allocs, "acquire and release"}, nil
}

// applySnapshot is the same with a snapshot of each batch.
func (s *suite) applySnapshot() (outcome, error) {
	s.fill()
	p := s.full.Pairs(s.held, s.steps, s.trials, true)
	s.full = nil // its memory
	return outcome{p.Nanos / 1000, fmt.Sprintf("acquire and release, %.0f allocations, %.0f B", p.Allocs, p.Bytes)}, nil
}

// treeCost is what a write lock costs above many locks, and beside them, in ns.
type treeCost struct {
	above, beside           float64
	aboveQueue, besideQueue float64 // with many waiting elsewhere
	many, few               float64 // above, with many and with a few, in turns
}

// measureTree measures it all, once.
func (s *suite) measureTree() *treeCost {
	if s.tree == nil {
		c, steps, trials := new(treeCost), s.steps/20, 3*s.trials
		s.say("taking %d locks below a path", s.held)
		t, few := cost.NewTree(s.held), cost.NewTree(s.held)
		c.above, c.beside = t.Write(steps, trials)
		s.say("queueing %d waiters elsewhere", s.queued)
		few.Queue(fewWaiters)
		t.Queue(s.queued)
		c.aboveQueue, c.besideQueue = t.Write(steps, trials)
		c.many, c.few = cost.CompareWrites(t, few, steps, trials)
		s.tree = c
	}
	return s.tree
}

// writeAbove compares a write lock above many own locks with one beside them.
func (s *suite) writeAbove() (outcome, error) {
	c := s.measureTree()
	return outcome{c.above / c.beside, fmt.Sprintf("acquire and release %.2f µs above %d own locks, %.2f µs beside them", c.above/1000, s.held, c.beside/1000)}, nil
}

// writeAboveQueue is the same with many waiting elsewhere.
func (s *suite) writeAboveQueue() (outcome, error) {
	c := s.measureTree()
	return outcome{c.aboveQueue / c.besideQueue,
		fmt.Sprintf("%.2f µs above, %.2f µs beside, while %d wait elsewhere in the namespace", c.aboveQueue/1000,
			c.besideQueue/1000, s.queued)}, nil
}

// writeWithQueue compares the write lock above them while many wait elsewhere with
// itself while a few do.
func (s *suite) writeWithQueue() (outcome, error) {
	c := s.measureTree()
	return outcome{c.many / c.few, fmt.Sprintf("%.2f µs while %d wait elsewhere in the namespace, %.2f µs while %d do",
		c.many/1000, s.queued, c.few/1000, fewWaiters)}, nil
}

// handover compares the hand-over of a mutex that few wait for with one that many
// wait for.
func (s *suite) handover() (outcome, error) {
	s.say("queueing %d waiters on one path", s.waiters)
	few, many := cost.Compare(cost.NewMutex(fewWaiters), cost.NewMutex(s.waiters), s.steps/20, 3*s.trials)
	return outcome{many / few, fmt.Sprintf("release, grant and next acquire %.2f µs with %d waiters, %.2f µs with %d",
		few/1000, fewWaiters, many/1000, s.waiters)}, nil
}
