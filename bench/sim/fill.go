package sim

import (
	"math"
	"slices"
	"time"
)

// flow is a snapshot on its way to a replica.
type flow struct {
	log      *raftLog
	to       *replica
	from     *node
	left     float64 // bytes
	rate     float64 // a second, since at
	at       time.Duration
	arrived  bool // it is being loaded
	canceled bool
}

// fill begins to fill a replica from its log's leader.
func (w *World) fill(l *raftLog, r *replica) {
	r.filling = true
	w.flows = append(w.flows, &flow{log: l, to: r, from: l.leader.node, left: w.c.locksOf(l.id)*w.c.LockBytes + 4096,
		at: w.now})
	at := make(map[*node]int)
	for _, f := range w.flows {
		at[f.to.node]++
	}
	w.Stats.FillNode = max(w.Stats.FillNode, at[r.node])
	w.Stats.FillAll = max(w.Stats.FillAll, len(w.flows))
	w.share()
}

// share gives each flow its part of what its two ends have, and waits for the first to
// arrive.
func (w *World) share() {
	out, in := make(map[*node]int), make(map[*node]int)
	for _, f := range w.flows {
		if !f.arrived {
			took := f.rate * (w.now - f.at).Seconds()
			f.left -= took
			w.Stats.Sent += took
			out[f.from]++
			in[f.to.node]++
		}
		f.at = w.now
	}
	w.flowGen++
	gen, first := w.flowGen, time.Duration(math.MaxInt64)
	for _, f := range w.flows {
		if !f.arrived {
			f.rate = w.c.Bandwidth / float64(max(out[f.from], in[f.to.node]))
			first = min(first, span(max(f.left, 0)/f.rate))
		}
	}
	if first == math.MaxInt64 {
		return
	}
	w.after(first+time.Microsecond, func() {
		if w.flowGen == gen {
			w.arrivals()
		}
	})
}

// arrivals has what arrived be loaded, as fast as a node loads, shared by what it loads.
func (w *World) arrivals() {
	for _, f := range w.flows {
		if f.arrived || f.left-f.rate*(w.now-f.at).Seconds() > 1 {
			continue
		}
		f.arrived = true
		w.Stats.Sent += max(f.left, 0)
		n := f.to.node
		n.loaded = max(n.loaded, w.now) + span(w.c.locksOf(f.log.id)/w.c.LoadRate)
		w.at(n.loaded, func() {
			if !f.canceled {
				f.to.filled = true
				w.end(f)
			}
		})
	}
	w.share()
}

// end takes a flow out.
func (w *World) end(f *flow) {
	f.canceled, f.to.filling = true, false
	w.flows = slices.DeleteFunc(w.flows, func(x *flow) bool { return x == f })
	w.share()
}

// stop ends the flows that fit: a snapshot that is cut off begins anew.
func (w *World) stop(fits func(*flow) bool) {
	for _, f := range slices.Clone(w.flows) {
		if fits(f) {
			w.end(f)
		}
	}
}

func (w *World) stopLog(l *raftLog) {
	w.stop(func(f *flow) bool { return f.log == l && !f.arrived })
}
func (w *World) stopFills(n *node) {
	w.stop(func(f *flow) bool { return f.from == n && !f.arrived || f.to.node == n })
}
func (w *World) stopReplica(r *replica) { w.stop(func(f *flow) bool { return f.to == r }) }
