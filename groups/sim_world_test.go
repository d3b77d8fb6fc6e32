package groups

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/wire"
)

// The world of the simulation: virtual time, a queue of what happens when, and tasks of
// which one runs at a time. All chance is drawn from the seed, so a run of a seed is
// always the same run.
//
// A node in it is a whole Node but for gossip, mesh and listeners: its raft is simulated
// (sim_raft_test.go), its connections to other nodes are pipes (sim_net_test.go), its
// clients call it as the faces do (sim_client_test.go), its disk is a file system in
// memory that can lose what was not synced.

// world is one run.
type world struct {
	seed    uint64
	rng     *rand.Rand
	now     time.Duration
	events  eventQueue
	seq     uint64
	tasks   []*simTask
	running *simTask
	nodes   []*simNode // the last one is the witness: never disturbed, never led by
	logs    map[uint64]*simLog
	shards  []uint64
	clients []*simClient
	healed  bool                     // nothing splits any more: the run is about to end
	cut     map[[2]int]bool          // pairs of nodes that do not reach each other
	apart   map[[2]int]time.Duration // until when others did not
	lossy   float64                  // share of proposals that is lost
	dir     string                   // for data directories
	pool    bool                     // there is a semaphore
	keyed   map[string]*wire.Request // by key, what clients ask by it (sim_mixed_test.go)
	// that disturb others' locks, and may be carried out yet, though nobody waits for it
	lingers []*wire.Request

	stakes  []*simStake // acquires that are followed, and by owner
	staked  map[string]*simStake
	callers int           // owners of them so far
	trouble time.Duration // when there was some last

	models *simModels

	broken  string // what went wrong first
	trace   func(string, ...any)
	details bool   // detail notes too
	sum     uint64 // of all that happened, for the comparison of two runs
	check   checks
	count   counts
}

// counts is what a run did.
type counts struct {
	ops, answers, entries, restarts, halts, elections, moves, installs, joins, calls, late, events, heard, told int
	modelled, keys                                                                                              int
}

func (c *counts) add(d counts) {
	c.ops += d.ops
	c.answers += d.answers
	c.entries += d.entries
	c.restarts += d.restarts
	c.halts += d.halts
	c.elections += d.elections
	c.moves += d.moves
	c.installs += d.installs
	c.joins += d.joins
	c.calls += d.calls
	c.late += d.late
	c.events += d.events
	c.heard += d.heard
	c.told += d.told
	c.modelled += d.modelled
	c.keys += d.keys
}

// event is something that happens at an instant; those of one instant in the order in
// which they were planned.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// at has something happen at an instant, after has it happen that much later.
func (w *world) at(at time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{max(at, w.now), w.seq, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// between draws a time.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)+1))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// fail ends the run: something is not as promised.
func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("VIOLATION %s", w.broken)
	}
}

// note writes what happened into the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.sum = xxh3.HashString(fmt.Sprintf("%d %d %s", w.sum, w.now, line))
	if w.trace != nil {
		w.trace("%12.6f  %s", w.now.Seconds(), line)
	}
}

// detail is note for what only the comparison of two runs wants to know.
func (w *world) detail(format string, args ...any) {
	if w.details {
		w.note(format, args...)
	}
}

// run lets things happen until an instant, or until something is broken.
func (w *world) run(until time.Duration) {
	w.settle()
	for w.broken == "" && len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		w.count.events++
		if e.do != nil {
			e.do()
		}
		w.settle()
	}
	w.now = max(w.now, until)
}

// mostTurns is how many turns tasks may take at one instant: more is a loop without end.
const mostTurns = 200_000

// settle has every task go on that can, one at a time, until none can.
func (w *world) settle() {
	for turns := 0; w.broken == ""; {
		ran := false
		from := 0
		if len(w.tasks) > 1 {
			from = w.rng.IntN(len(w.tasks))
		}
		for i, n := 0, len(w.tasks); i < n; i++ {
			t := w.tasks[(from+i)%n]
			if t.poll() {
				ran = true
				turns++
			}
		}
		w.tasks = deleteDead(w.tasks)
		if !ran {
			return
		}
		if turns > mostTurns {
			w.fail("livelock: tasks take turns without end")
		}
	}
}

func deleteDead(tasks []*simTask) []*simTask {
	kept := tasks[:0]
	for _, t := range tasks {
		if !t.dead {
			kept = append(kept, t)
		}
	}
	clear(tasks[len(kept):])
	return kept
}

// simTask is a task of a node. It runs as a coroutine, until it waits.
type simTask struct {
	w      *world
	node   *simNode
	next   func() (simPark, bool)
	stop   func()
	yield  func(simPark) bool
	park   simPark
	parked bool
	dead   bool
	result int
}

// simPark is what a task waits for.
type simPark struct {
	until time.Duration
	on    []<-chan struct{}
	under []raft.Pending
}

// simKilled unwinds a task whose node crashed.
type simKilled struct{}

// simTasks is tasks of one life of a node.
type simTasks struct {
	w    *world
	node *simNode
	life int
}

func (s *simTasks) run(f func()) {
	t := &simTask{w: s.w, node: s.node}
	if s.life != s.node.life {
		return // of a life that is over
	}
	t.next, t.stop = iter.Pull(func(yield func(simPark) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, killed := r.(simKilled); !killed {
					panic(r)
				}
			}
		}()
		t.yield = yield
		f()
	})
	s.w.tasks = append(s.w.tasks, t)
}

func (s *simTasks) wait(d time.Duration, on ...<-chan struct{}) int {
	return s.w.block(simPark{until: s.w.later(d), on: on})
}

func (w *world) later(d time.Duration) time.Duration {
	if d >= forever/2 {
		return forever
	}
	return w.now + max(d, 0)
}

// block has the running task wait.
func (w *world) block(p simPark) int {
	t := w.running
	if t == nil {
		panic("groups: something waits that is not in a task")
	}
	if p.until < forever {
		w.at(p.until, nil)
	}
	if !t.yield(p) {
		panic(simKilled{})
	}
	return t.result
}

// poll has the task go on if what it waits for is there, and reports whether it did.
func (t *simTask) poll() bool {
	if t.dead || t.node.still() {
		return false
	}
	if t.parked && !t.ready() {
		return false
	}
	was := t.w.running
	t.w.running = t
	t.parked = false
	park, more := t.next()
	t.w.running = was
	if !more {
		t.dead = true
		return true
	}
	t.park, t.parked = park, true
	return true
}

// ready says that the task need not wait any longer, and receives what it waited for.
func (t *simTask) ready() bool {
	for _, p := range t.park.under {
		if done, _ := p.Answered(); done {
			t.result = -1
			return true
		}
	}
	for i, c := range t.park.on {
		if c == nil {
			continue
		}
		select {
		case <-c:
			t.result = i
			return true
		default:
		}
	}
	if t.w.now >= t.park.until {
		t.result = -1
		return true
	}
	return false
}

// kill ends all tasks of a node.
func (w *world) kill(n *simNode) {
	for _, t := range w.tasks {
		if t.node == n && !t.dead {
			t.dead = true
			t.stop()
		}
	}
	w.tasks = deleteDead(w.tasks)
}
