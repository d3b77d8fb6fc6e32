package sim

import (
	"math"
	"slices"
	"time"
)

// Gossip as groups/gossip sets memberlist up for nodes on several machines
// (members/timing.go), and what is memberlist's own.
const (
	probeEvery    = time.Second
	suspicion     = 4 // × log10 of the members × probeEvery until a suspect is dead ...
	suspicionMax  = 6 // ... and this many times longer while few confirm it
	confirmations = suspicion - 2
	gossipEvery   = 200 * time.Millisecond
	gossipNodes   = 3
	indirect      = 3 // nodes that are asked to probe too
	healthMax     = 8 // a node that doubts itself probes this many times more slowly
	packetBytes   = 1400
	rumourBytes   = 230 // of a message that says that a node is alive, with its record
	rejoin        = 10 * time.Second
	rejoinNodes   = 32
)

// missed has those who cannot hear a node any more find that out, unless it comes back
// before.
func (w *World) missed(n *node) {
	starts := n.starts
	groups := [2]int{}
	for _, o := range w.nodes {
		if o.up && o != n && !w.reach(o, n) {
			groups[o.side]++
		}
	}
	for side, observers := range groups {
		if observers == 0 {
			continue
		}
		w.after(w.detection(observers), func() {
			if n.starts == starts && (!n.up || w.cut) {
				w.tell(n, false, func(o *node) bool { return !w.reach(o, n) && o.side == side })
			}
		})
	}
}

// detection is how long it takes until the first of some observers declares a node dead.
// Each of them probes each member once in as many probe intervals as there are members.
// The first to miss it suspects it at the end of the interval; others that miss it too
// confirm that, which shortens the time that the suspect has to object.
func (w *World) detection(observers int) time.Duration {
	members := len(w.nodes)
	lost := 1 - float64(observers)/float64(members)
	every := probeEvery
	if lost*indirect*lost > 1-lost {
		every *= healthMax // more often than not probes fail, and those asked to help do not answer
	}
	first := make([]time.Duration, observers)
	for i := range first {
		first[i] = w.chance(time.Duration(members-1) * every)
	}
	slices.Sort(first)
	k := confirmations
	if members-2 < k {
		k = 0
	}
	least := span(suspicion * max(1, math.Log10(float64(members))) * probeEvery.Seconds())
	began := first[0] + every
	if k == 0 {
		return began + least
	}
	// The suspicion ends at the first moment at which it is older than what the
	// confirmations so far leave it.
	for c := 0; ; c++ {
		share := math.Log(float64(c)+1) / math.Log(float64(k)+1)
		left := max(least, time.Duration(float64(suspicionMax*least)-share*float64(suspicionMax*least-least)))
		ends := began + left
		if c == k || c+1 >= observers {
			return ends
		}
		next := first[c+1] + every + gossipEvery
		if ends <= next {
			return ends
		}
		if c+1 == k {
			return max(next, began+least)
		}
	}
}

// arrived has the others hear of a node that has started, and it of them, by an exchange
// with a seed.
func (w *World) arrived(n *node) {
	starts := n.starts
	w.after(gossipEvery, func() {
		if !n.up || n.starts != starts {
			return
		}
		for _, o := range w.nodes {
			n.sees[o.idx] = 0
			if w.reach(n, o) {
				n.sees[o.idx] = o.starts
			}
		}
		n.seen = nil
		n.wake()
		w.rumour(n, true)
	})
}

// rumour tells those who can hear a node that it is alive, or all that it is not.
func (w *World) rumour(n *node, alive bool) {
	starts := n.starts
	w.tell(n, alive, func(o *node) bool {
		return w.reach(o, n) == alive && (!alive || n.starts == starts)
	})
}

// tell spreads a rumour about a node: each who knows it tells three more in each interval.
// When there are many at once they share the packets, and each waits its turn. Who hears
// it whether that still holds.
func (w *World) tell(n *node, alive bool, holds func(*node) bool) {
	w.rumours = append(slices.DeleteFunc(w.rumours, func(t time.Duration) bool { return w.now-t > 5*time.Second }),
		w.now)
	const room = gossipNodes * (packetBytes / rumourBytes) // rumours in an interval's packets
	hop := gossipEvery * time.Duration((len(w.rumours)+room-1)/room)
	start := 0
	if alive {
		start = n.starts
	}
	waves := make([][]*node, int(math.Ceil(math.Log(float64(len(w.nodes)))/math.Log(gossipNodes+1)))+1)
	for _, o := range w.nodes {
		waves[o.idx%len(waves)] = append(waves[o.idx%len(waves)], o)
	}
	for i, wave := range waves {
		w.after(hop*time.Duration(i), func() {
			for _, o := range wave {
				if o.up && o != n && o.sees[n.idx] != start && holds(o) {
					o.sees[n.idx] = start
					o.seen = nil
					o.wake()
				}
			}
		})
	}
}
