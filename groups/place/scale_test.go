package place

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// BenchmarkScale works out the figures of docs/scaling.md, with the default windows,
// limits and balance interval, steps that take a second, and replicas that take ten
// seconds to fill. They are counted and not measured: they are the same on every
// machine, only ns/op is not.
func BenchmarkScale(b *testing.B) {
	for _, nodes := range []int{5, 50, 500} {
		for _, logs := range []int{16, 64, 1024} {
			b.Run(fmt.Sprintf("nodes=%d/logs=%d", nodes, logs), func(b *testing.B) {
				for b.Loop() {
					spread(b, nodes, logs)
					heal(b, "join", nodes, logs, func(w *world) { w.join() })
					heal(b, "death", nodes, logs, func(w *world) { w.crash(w.leads(1)) })
				}
			})
		}
	}
}

// spread reports how evenly logs are laid out, and what share of the replicas moves
// when a node comes or goes, over ten nodes: once as share and once as multiple of the
// least, which is the even share of that node.
func spread(b *testing.B, nodes, logs int) {
	names, numbers := nodeNames(nodes), logNumbers(logs)
	full := Place(numbers, names, 3)
	voters, leads := count(full, names)
	for what, by := range map[string]map[string]int{"voters": voters, "leads": leads} {
		all := slices.Sorted(maps.Values(by))
		b.ReportMetric(float64(all[0]), what+"-min")
		b.ReportMetric(float64(all[len(all)/2]), what+"-median")
		b.ReportMetric(float64(all[len(all)-1]), what+"-max")
	}
	moved, led, times := 0, 0, 0
	for i := 0; i < nodes; i += max(nodes/10, 1) {
		v, l := seatsMoved(Place(numbers, slices.Concat(names[:i], names[i+1:]), 3), full)
		moved, led, times = moved+v, led+l, times+1
	}
	share := float64(moved) / float64(times*3*len(numbers))
	b.ReportMetric(100*share, "moved-%")
	b.ReportMetric(share*float64(nodes), "of-least")
	b.ReportMetric(100*float64(led)/float64(times*len(numbers)), "leads-moved-%")
}

// heal reports how a cluster gets over a change: seconds until every replica is where
// it belongs, the windows included, and until every leadership is; steps; and how many
// replicas were filled at once in the whole cluster.
func heal(b *testing.B, what string, nodes, logs int, change func(*world)) {
	w := newWorld(1, 3, b.Fatalf)
	w.windows = Windows{Stability: 30 * time.Second, Eviction: 60 * time.Second}
	w.pace.Balance = time.Minute
	w.found(nodes, nodes, logs)
	for range 70 {
		w.tick()
	}
	w.fill = 0 // eight ticks for a log, and two for its first and last steps
	w.done, w.filled = [Transfer + 1]int{}, 0
	change(w)
	began, moved := w.now, w.now
	for w.converged() != "" {
		before := w.done[Add] + w.done[Promote] + w.done[Remove]
		w.tick()
		if w.done[Add]+w.done[Promote]+w.done[Remove] > before {
			moved = w.now
		}
		if w.now > 20_000 {
			b.Fatalf("not healed: %s", w.converged())
		}
	}
	steps := 0
	for _, n := range w.done[Add:] {
		steps += n
	}
	b.ReportMetric(float64(moved-began), what+"-moved-s")
	b.ReportMetric(float64(w.now-began), what+"-settled-s")
	b.ReportMetric(float64(steps), what+"-steps")
	b.ReportMetric(float64(w.filled), what+"-filled-at-once")
}

// leads is the node that leads a log.
func (w *world) leads(log uint64) *host {
	l := w.logs[log-1]
	return w.host(l.replica(l.leader).Node)
}

// BenchmarkRound is what a node's round costs: a look at the members, and the plans of
// the logs it leads, none of which has anything to do.
func BenchmarkRound(b *testing.B) {
	for _, c := range []struct{ nodes, logs int }{{5, 16}, {50, 64}, {500, 1024}} {
		b.Run(fmt.Sprintf("nodes=%d/led=%d", c.nodes, c.logs/c.nodes+1), func(b *testing.B) {
			w := newWorld(1, 3, b.Fatalf)
			w.found(c.nodes, c.nodes, c.logs)
			for range 20 {
				w.tick()
			}
			h := w.leads(1)
			layout := w.layout(h.view.Placed)
			b.ReportAllocs()
			for b.Loop() {
				view := h.members.Observe(w.clock(), h.seen, nil)
				for _, l := range w.logs {
					if l.replica(l.leader).Node == h.name {
						if s := Plan(l.seen(), layout[l.id], view.Nodes); s.Kind != Settled {
							b.Fatal(s)
						}
					}
				}
			}
		})
	}
}
