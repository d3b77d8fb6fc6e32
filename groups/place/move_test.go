package place

import (
	"slices"
	"testing"
	"time"
)

// settled is a world without faults that has come to rest.
func settled(t *testing.T, nodes, logs int) *world {
	t.Helper()
	w := newWorld(1, 3, t.Fatalf)
	w.found(nodes, nodes, logs)
	w.settle(100)
	for range 20 {
		w.tick()
	}
	w.done = [Transfer + 1]int{}
	return w
}

// seatsNow is the layout as it is.
func (w *world) seatsNow() Layout {
	l := make(Layout)
	for _, log := range w.logs {
		for _, r := range log.replicas {
			l[log.id] = append(l[log.id], r.Node)
		}
	}
	return l
}

// TestAMoveIsTheDifferenceOfLayouts says that when the members change, the cluster
// carries out what lies between the two layouts, and nothing besides: each new seat
// is one replica added, promoted, and one removed.
func TestAMoveIsTheDifferenceOfLayouts(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		change func(w *world)
	}{
		{"a node joins three", 3, func(w *world) { w.join() }},
		{"a node joins one", 1, func(w *world) { w.join() }},
		{"two nodes join one", 1, func(w *world) { w.join(); w.join() }},
		{"a node joins nine", 9, func(w *world) { w.join() }},
		{"one of three dies", 3, func(w *world) { w.crash(w.hosts[1]) }},
		{"one of five dies", 5, func(w *world) { w.crash(w.hosts[1]) }},
		{"one of five is drained", 5, func(w *world) { w.mark(w.hosts[2], DrainReplicas) }},
		{"one of four is drained", 4, func(w *world) { w.mark(w.hosts[0], DrainReplicas) }},
		{"two of seven are drained", 7, func(w *world) {
			w.mark(w.hosts[0], DrainReplicas)
			w.mark(w.hosts[5],
				DrainReplicas)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := settled(t, c.nodes, 32)
			before := w.seatsNow()
			c.change(w)
			w.settle(400)
			after := w.seatsNow()
			come, _ := seatsMoved(before, after)
			go_, _ := seatsMoved(after, before)
			if w.done[Add] != come || w.done[Promote] != come || w.done[Remove] != go_ {
				t.Errorf("%d replicas were added, %d promoted and %d removed; the layouts differ by %d and %d",
					w.done[Add], w.done[Promote], w.done[Remove], come, go_)
			}
			if come+go_ == 0 {
				t.Error("nothing moved")
			}
		})
	}
}

// TestAWipedNodeGetsItsReplicasBack says that a node with an empty disk gets as many
// replicas as it had, under new ids, and nobody else gets any.
func TestAWipedNodeGetsItsReplicasBack(t *testing.T) {
	w := settled(t, 5, 32)
	before, _ := count(w.seatsNow(), nil)
	h := w.hosts[3]
	w.wipe(h)
	w.tick()
	w.start(h)
	w.settle(400)
	if n := before[h.name]; w.done[Add] != n || w.done[Promote] != n || w.done[Remove] != n || n == 0 {
		t.Errorf("%d replicas were added, %d promoted and %d removed, it had %d", w.done[Add], w.done[Promote],
			w.done[Remove], n)
	}
}

// TestAFailoverMovesNoReplica says that a node that dies and is back within the
// eviction window costs leaderships alone, and gets them back in rounds and once it
// is steady.
func TestAFailoverMovesNoReplica(t *testing.T) {
	w := settled(t, 5, 64)
	h := w.hosts[2]
	_, leads := count(w.layout(nodeNames(5)), nil)
	w.crash(h)
	for range 8 {
		w.tick()
	}
	w.start(h)
	for range int(w.windows.Stability / time.Second) {
		w.tick()
		if w.done != [Transfer + 1]int{} {
			t.Fatalf("%v done while %s is not steady yet", w.done, h.name)
		}
	}
	w.settle(100)
	if w.done[Add]+w.done[Promote]+w.done[Remove] != 0 || w.done[Transfer] != leads[h.name] {
		t.Errorf("%v were done, want %d transfers alone", w.done, leads[h.name])
	}
}

// TestADrainedNodeIsEmptiedLeadershipsFirst says that a node that leaves, or is about
// to stop, loses its leaderships at once, and only the one that leaves its replicas.
func TestADrainedNodeIsEmptiedLeadershipsFirst(t *testing.T) {
	for _, d := range []Drain{DrainLeads, DrainReplicas} {
		w := settled(t, 5, 32)
		h := w.hosts[1]
		had, _ := count(w.seatsNow(), nil)
		w.mark(h, d)
		led := func() (n int) {
			for _, l := range w.logs {
				if r := l.replica(l.leader); r != nil && r.Node == h.name {
					n++
				}
			}
			return n
		}
		n := 0
		for ; led() > 0; n++ {
			if n > 10 {
				t.Fatalf("drain %d: it leads %d logs after %d s", d, led(), n)
			}
			w.tick()
		}
		has, _ := count(w.seatsNow(), nil)
		if has[h.name] != had[h.name] {
			t.Errorf("drain %d: replicas went before leaderships: it has %d of %d", d, has[h.name], had[h.name])
		}
		for range 200 {
			w.tick()
		}
		has, _ = count(w.seatsNow(), nil)
		if left := d == DrainReplicas; (has[h.name] == 0) != left || led() > 0 {
			t.Errorf("drain %d: it has %d of %d replicas and leads %d logs", d, has[h.name], had[h.name], led())
		}
	}
}

// TestACutOffNodeMovesNothing says that most nodes dying at once is not answered by
// moving what is left.
func TestACutOffNodeMovesNothing(t *testing.T) {
	w := settled(t, 7, 32)
	for _, h := range w.hosts[:4] {
		w.crash(h)
	}
	for range 300 {
		w.tick()
	}
	if w.done[Add]+w.done[Promote]+w.done[Remove] != 0 {
		t.Errorf("%v were done with 3 of 7 nodes left", w.done)
	}
	for _, h := range w.hosts[:4] {
		w.start(h)
	}
	w.settle(100)
	if w.done[Add]+w.done[Promote]+w.done[Remove] != 0 {
		t.Errorf("%v were done when all were back", w.done)
	}
}

// TestSlowReplicasAreBounded says that a node fills no more replicas at a time than
// its logs being changed can have.
func TestSlowReplicasAreBounded(t *testing.T) {
	w := settled(t, 3, 32)
	w.pace.Concurrent, w.fill = 2, 100
	for _, h := range w.hosts {
		h.sched = NewScheduler(w.clock(), w.pace)
	}
	w.join()
	w.settle(4000)
	if most := 3 * w.pace.Concurrent; w.filled > most || w.filled < w.pace.Concurrent {
		t.Errorf("%d replicas were filled at once, want at most %d", w.filled, most)
	}
	if slices.Contains(w.done[Add:], 0) {
		t.Errorf("%v were done", w.done)
	}
}
