package place

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// world is a cluster that runs on this package alone: nodes that come and go, logs
// with members and leaders as raft keeps them, and steps that take their time, fail,
// or get lost. A tick is a second.
type world struct {
	rand    *rand.Rand
	now     int
	windows Windows
	pace    Pace
	factor  int
	fill    int  // entries that a replica catches up in a tick
	faults  bool // of steps and elections
	misty   bool // nodes are overlooked now and then

	hosts   []*host
	named   map[string]*host
	logs    []*raftLog
	flights []*flight
	marks   map[string]Drain
	crashes int
	layouts map[string]Layout

	done   [Transfer + 1]int // steps that took effect
	filled int               // most replicas that caught up at once
	fail   func(format string, args ...any)
}

// host is a node.
type host struct {
	name  string
	disk  string
	up    bool
	drain Drain
	since int // up or down since

	members *Members
	sched   *Scheduler
	flying  int
	seen    []Sighting // in the last round, which view came of
	view    View
}

// newWorld is a world without nodes, with short windows.
func newWorld(seed uint64, factor int, fail func(string, ...any)) *world {
	return &world{
		rand:    rand.New(rand.NewPCG(seed, 1)),
		windows: Windows{Stability: 6 * time.Second, Eviction: 10 * time.Second},
		pace:    Pace{Concurrent: 4, Balance: 8 * time.Second},
		factor:  factor, fill: 2000, named: make(map[string]*host), marks: make(map[string]Drain),
		layouts: make(map[string]Layout), fail: fail,
	}
}

// found starts nodes and lays logs out over the first of them.
func (w *world) found(nodes, founders, logs int) {
	for range nodes {
		w.join()
	}
	var names []string
	for _, h := range w.hosts[:founders] {
		names = append(names, h.name)
	}
	for id, seats := range Place(logNumbers(logs-1), names, w.factor) {
		l := &raftLog{id: id, version: 1, leader: 1, used: make(map[uint64]bool)}
		for i, n := range seats {
			r := Replica{ID: uint64(i + 1), Node: n, Disk: w.host(n).disk, Voting: true, Applied: 10_000}
			l.replicas, l.used[r.ID] = append(l.replicas, r), true
		}
		w.logs = append(w.logs, l)
	}
	slices.SortFunc(w.logs, func(a, b *raftLog) int { return cmp.Compare(a.id, b.id) })
}

func (w *world) clock() time.Duration { return time.Duration(w.now) * time.Second }

func (w *world) host(name string) *host { return w.named[name] }

func (w *world) join() {
	name := fmt.Sprintf("pathlockd-%d", len(w.hosts))
	h := &host{name: name, disk: name + "/1"}
	w.hosts = append(w.hosts, h)
	w.named[name] = h
	w.start(h)
}

func (w *world) start(h *host) {
	h.up, h.drain, h.since = true, DrainNothing, w.now
	h.members = NewMembers(w.clock(), Sighting{Node: h.name, Disk: h.disk}, w.windows)
	w.pace.Quiet = w.windows.Quiet()
	h.sched, h.flying, h.seen, h.view = NewScheduler(w.clock(), w.pace), 0, nil, View{}
}

func (w *world) crash(h *host) {
	h.up, h.since = false, w.now
	w.crashes++
}

// wipe empties a node's disk.
func (w *world) wipe(h *host) {
	w.crash(h)
	h.disk = fmt.Sprintf("%s/%d", h.name, w.crashes+1)
}

// mark is an operator's word on a node, which every node hears of.
func (w *world) mark(h *host, d Drain) {
	w.marks[h.name] = d
	for _, other := range w.hosts {
		other.seen = nil
	}
}

// tick lets a second pass.
func (w *world) tick() {
	w.now++
	for _, l := range w.logs {
		w.elect(l)
		w.work(l)
	}
	w.land()
	var seen []Sighting
	for _, h := range w.hosts {
		if h.up {
			seen = append(seen, Sighting{Node: h.name, Disk: h.disk, Drain: h.drain})
		}
	}
	led := make(map[string][]*raftLog)
	for _, l := range w.logs {
		if l.leader != 0 {
			led[l.replica(l.leader).Node] = append(led[l.replica(l.leader).Node], l)
		}
	}
	for _, h := range w.hosts {
		if h.up {
			w.round(h, w.blind(h, seen), led[h.name])
		}
	}
	filling := 0
	for _, l := range w.logs {
		for _, r := range l.replicas {
			if !r.Voting && w.live(r) && l.leader != 0 && r.Applied+MaxLag < l.replica(l.leader).Applied {
				filling++
			}
		}
	}
	w.filled = max(w.filled, filling)
}

// blind is what a node sees of the others.
func (w *world) blind(h *host, seen []Sighting) []Sighting {
	if w.misty && w.rand.IntN(50) == 0 {
		seen = slices.Clone(seen)
		i := w.rand.IntN(len(seen))
		if seen[i].Node != h.name {
			seen = slices.Delete(seen, i, i+1)
		}
	}
	return seen
}

// round is one node's round, as doc.go says. It looks at the members only if others
// are seen, or it was asked to look again: so View.Next has to be true.
func (w *world) round(h *host, seen []Sighting, led []*raftLog) {
	if len(led) == 0 && h.flying == 0 && slices.Equal(seen, h.seen) && w.clock() < h.view.Next {
		h.sched.Next(w.clock(), nil)
		return
	}
	known := len(h.view.Nodes)
	for _, l := range led {
		for _, r := range l.replicas {
			if !h.view.Nodes[r.Node].Stable {
				h.members.Adopt(w.clock(), []string{r.Node})
				known = 0
			}
		}
	}
	if known == 0 || !slices.Equal(seen, h.seen) || w.clock() >= h.view.Next {
		h.seen, h.view = seen, h.members.Observe(w.clock(), seen, w.marks)
	}
	view := h.view
	layout := w.layout(view.Placed)
	var plans []Step
	for _, l := range led {
		plans = append(plans, Plan(l.seen(), layout[l.id], view.Nodes))
	}
	start, _ := h.sched.Next(w.clock(), plans)
	for _, s := range start {
		l := w.logs[s.Log-1]
		w.check(h, l, s, len(layout[l.id]))
		w.begin(h, l, s)
	}
	if changes, transfers := h.sched.Open(); changes > w.pace.Concurrent || transfers > w.pace.Concurrent ||
		h.flying > changes+transfers {
		w.fail("%s has %d steps under way, changes %d logs and hands %d over, want at most %d", h.name, h.flying,
			changes, transfers, w.pace.Concurrent)
	}
}

func (w *world) layout(placed []string) Layout {
	key := strings.Join(placed, " ")
	if l, ok := w.layouts[key]; ok {
		return l
	}
	var ids []uint64
	for _, l := range w.logs {
		ids = append(ids, l.id)
	}
	w.layouts[key] = Place(ids, placed, w.factor)
	return w.layouts[key]
}

// converged says what is not yet as it should be; empty: nothing.
func (w *world) converged() string {
	var placed []string
	for _, h := range w.hosts {
		if h.up && w.marks[h.name] < DrainReplicas {
			placed = append(placed, h.name)
		}
	}
	layout := w.layout(placed)
	for _, l := range w.logs {
		want := layout[l.id]
		var have []string
		for _, r := range l.replicas {
			if !r.Voting || !w.live(r) {
				return fmt.Sprintf("log %d has replica %+v", l.id, r)
			}
			have = append(have, r.Node)
		}
		if !maps.Equal(set(have), set(want)) || len(have) != len(want) {
			return fmt.Sprintf("log %d is on %v, want %v", l.id, have, want)
		}
		if l.leader == 0 || l.replica(l.leader).Node != want[0] {
			return fmt.Sprintf("log %d is led by replica %d of %+v, want %s", l.id, l.leader, l.replicas, want[0])
		}
	}
	return ""
}

func set(names []string) map[string]bool {
	m := make(map[string]bool)
	for _, n := range names {
		m[n] = true
	}
	return m
}

// settle runs until all is as it should be.
func (w *world) settle(limit int) {
	for i := range limit {
		if i%2 == 0 && w.converged() == "" {
			return
		}
		w.tick()
	}
	w.fail("after %d s: %s\n%s", limit, w.converged(), w.report())
}

// report says what the leaders think of the logs that are not as they should be.
func (w *world) report() string {
	var b strings.Builder
	for _, l := range w.logs {
		if l.leader == 0 {
			fmt.Fprintf(&b, "log %d has no leader: %+v\n", l.id, l.replicas)
			continue
		}
		h := w.host(l.replica(l.leader).Node)
		if s := Plan(l.seen(), w.layout(h.view.Placed)[l.id], h.view.Nodes); s.Kind != Settled {
			fmt.Fprintf(&b, "%s says %v; placed on %v; %+v\n", h.name, s, h.view.Placed, l.replicas)
		}
	}
	return b.String()
}
