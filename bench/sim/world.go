package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// World is a cluster. One goroutine uses it.
type World struct {
	c      Config
	rand   *rand.Rand
	now    time.Duration
	seq    int
	events events

	nodes   []*node
	named   map[string]*node
	logs    []*raftLog // by number, from 1
	layouts map[string]place.Layout
	flows   []*flow
	flowGen int
	cut     bool // nodes hear only those of their own side
	rumours []time.Duration
	crashes int // and cuts: what changes who is live

	Stats Stats
}

// Stats is what was counted since Reset.
type Stats struct {
	Elections   int // that gave a log a leader
	Splits      int // that did not
	Transfers   int
	Added       int // replicas
	Promoted    int
	Removed     int
	Rounds      int
	Layouts     int // worked out by nodes
	Notices     int // of leaders, sent
	Asks        int // how far replicas are, sent
	Sent        float64
	Leaderless  []time.Duration // times that logs were without a leader, but for hand-overs
	ElectedAt   []time.Duration
	OpenNode    int // most logs that one node changed at once
	OpenAll     int // and all nodes together
	FillNode    int // most replicas that one node was sent at once
	FillAll     int
	LeadsWorst  int // most logs that a node led at any time
	LastVoter   time.Duration
	LastLeader  time.Duration
	NoMajority  int // most logs that had no live majority at once
	Violations  []string
	violationsN int
}

// New makes a cluster of Nodes that has been running for a while, all logs where they
// belong. Its logs were laid out over the first founders; the others have just come.
func New(c Config, founders int) *World {
	w := &World{c: c.defaults(), rand: newRand(c.Seed), named: make(map[string]*node),
		layouts: make(map[string]place.Layout)}
	for i := range c.Nodes {
		n := &node{w: w, idx: i, name: fmt.Sprintf("pathlockd-%d", i)}
		n.disk = n.name + "/1"
		n.sees = make([]int, c.Nodes)
		w.nodes, w.named[n.name] = append(w.nodes, n), n
	}
	w.found(founders)
	return w
}

// found starts the first nodes and lays the logs out over them.
func (w *World) found(founders int) {
	var names []string
	for _, n := range w.nodes[:founders] {
		names = append(names, n.name)
	}
	layout := place.Place(w.numbers(), names, w.c.Factor)
	for _, id := range w.numbers() {
		l := &raftLog{w: w, id: id, version: 1, term: 1}
		for i, name := range layout[id] {
			l.replicas = append(l.replicas, &replica{node: w.named[name], id: uint64(i + 1), voting: true,
				running: true, filled: true})
		}
		l.leader, l.serving = l.replicas[0], true
		w.logs = append(w.logs, l)
	}
	for _, n := range w.nodes[:founders] {
		w.now = -w.chance(w.c.Balance) // their rounds of balancing are not in step
		n.begin()
	}
	w.now = 0
	for _, n := range w.nodes[:founders] {
		for _, other := range w.nodes[:founders] {
			n.sees[other.idx] = other.starts
		}
		n.wake()
	}
	w.run(w.c.Windows.Quiet() + w.c.Windows.Stability)
	w.Reset()
}

// numbers are those of all logs.
func (w *World) numbers() []uint64 {
	ids := make([]uint64, w.c.Logs+1)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	return ids
}

// Reset begins to count anew.
func (w *World) Reset() {
	w.Stats = Stats{LastVoter: w.now, LastLeader: w.now, Violations: w.Stats.Violations,
		violationsN: w.Stats.violationsN}
	w.leads()
}

// layout is the layout over some nodes, worked out once.
func (w *World) layout(placed []string) place.Layout {
	key := strings.Join(placed, " ")
	l, ok := w.layouts[key]
	if !ok {
		if len(w.layouts) >= maxLayouts {
			clear(w.layouts)
		}
		l = place.Place(w.numbers(), placed, w.c.Factor)
		w.layouts[key] = l
	}
	return l
}

// maxLayouts bounds what is remembered of layouts; when there are more all are worked
// out anew.
const maxLayouts = 2000

// reach says whether two nodes hear each other.
func (w *World) reach(a, b *node) bool {
	return a.up && b.up && (a == b || !w.cut || a.side == b.side)
}

// crash ends a node's process, or its machine.
func (w *World) crash(n *node) {
	n.up, n.drain, n.downSince = false, place.DrainNothing, w.now
	n.starts++ // what was to come of the old process does not
	w.crashes++
	w.stopFills(n)
	for _, r := range w.seats(n) {
		r.running = false
	}
	w.connectivity()
	w.missed(n)
}

// start starts a node again: it loads its locks, and the others hear of it.
func (w *World) start(n *node) {
	load := startTime
	for _, l := range w.logs {
		if r := l.on(n); r != nil && r.filled {
			load += span(w.c.locksOf(l.id) / w.c.LoadRate)
		}
	}
	starts := n.starts
	w.after(load, func() {
		if n.up || n.starts != starts {
			return
		}
		n.up = true
		n.begin()
		for _, r := range w.seats(n) {
			r.running = r.filled
		}
		w.connectivity()
		w.arrived(n)
	})
}

// seats are the replicas on a node.
func (w *World) seats(n *node) (out []*replica) {
	for _, l := range w.logs {
		if r := l.on(n); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// split cuts the cluster into two, of which neither hears the other.
func (w *World) split(other func(*node) bool) {
	w.cut = true
	w.crashes++
	for _, n := range w.nodes {
		n.side = 0
		if other(n) {
			n.side = 1
		}
	}
	w.connectivity()
	for _, n := range w.nodes {
		if n.up {
			w.missed(n)
		}
	}
}

// heal ends that. Gossip of the two sides meets a little later.
func (w *World) heal() {
	w.cut = false
	for _, n := range w.nodes {
		n.side = 0
	}
	w.connectivity()
	w.after(w.chance(rejoin/min(time.Duration(len(w.nodes)), rejoinNodes)), func() {
		for _, n := range w.nodes {
			if n.up {
				w.rumour(n, true)
			}
		}
	})
}

// connectivity looks what became of each log's leader, now that other nodes can be
// reached.
func (w *World) connectivity() {
	without := 0
	for _, l := range w.logs {
		l.look()
		if !l.majority() {
			without++
		}
	}
	w.Stats.NoMajority = max(w.Stats.NoMajority, without)
	w.leads()
}

// leads notes how many logs a node leads at most.
func (w *World) leads() {
	by := make(map[string]int)
	for _, l := range w.logs {
		if l.leader != nil {
			by[l.leader.node.name]++
			w.Stats.LeadsWorst = max(w.Stats.LeadsWorst, by[l.leader.node.name])
		}
	}
}

// Settled says what is not yet as it should be; empty: nothing.
func (w *World) Settled() string {
	var placed []string
	for _, n := range w.nodes {
		if n.up {
			placed = append(placed, n.name)
		}
	}
	slices.Sort(placed)
	layout := w.layout(placed)
	for _, l := range w.logs {
		want := layout[l.id]
		if len(l.replicas) != len(want) {
			return fmt.Sprintf("log %d has %d replicas, want %d", l.id, len(l.replicas), len(want))
		}
		for _, r := range l.replicas {
			if !r.voting || !r.filled || !slices.Contains(want, r.node.name) {
				return fmt.Sprintf("log %d has a replica on %s", l.id, r.node.name)
			}
		}
		if l.leader == nil || l.leader.node.name != want[0] {
			return fmt.Sprintf("log %d does not have its leader", l.id)
		}
	}
	return ""
}

// Settle runs until all is as it should be, or for a time, and says what is not.
func (w *World) Settle(limit time.Duration) string {
	for end := w.now + limit; w.now < end; {
		w.run(w.now + time.Second)
		if w.Settled() == "" {
			return ""
		}
	}
	return w.Settled()
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
