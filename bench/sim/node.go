package sim

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// node is a process and its machine.
type node struct {
	w         *World
	idx       int
	name      string
	disk      string
	up        bool
	side      int // of a cut
	starts    int // and ends
	downSince time.Duration
	drain     place.Drain // what it says of itself

	members *place.Members
	sched   *place.Scheduler
	sees    []int            // by gossip: which start of each node is alive, 0: none
	seen    []place.Sighting // sees, as members is told; nil: it changed
	view    place.View
	layout  place.Layout

	leads        []*raftLog // in order
	leaderEpochs time.Duration
	loaded       time.Duration // when all that arrived is loaded
	due          time.Duration // of the next round; place.Never: none is
	rest         time.Duration // no round before this
	seq          int
}

// begin is the start of its process.
func (n *node) begin() {
	n.up = true
	n.starts++
	self := place.Sighting{Node: n.name, Disk: n.disk}
	n.members = place.NewMembers(n.w.now, self, n.w.c.Windows)
	n.sched = place.NewScheduler(n.w.now, place.Pace{Concurrent: n.w.c.Concurrent, Balance: n.w.c.Balance,
		Quiet: n.w.c.Windows.Quiet()})
	clear(n.sees)
	n.sees[n.idx] = n.starts
	n.seen, n.view, n.layout, n.due = nil, place.View{}, nil, place.Never
	for _, l := range n.w.logs {
		if l.leader != nil && l.leader.node == n && !slices.Contains(n.leads, l) {
			n.leads = append(n.leads, l)
		}
	}
}

// wake has the node look around as soon as it may.
func (n *node) wake() { n.lookAt(max(n.w.now, n.rest)) }

// lookAt has a round begin at a time, unless one begins sooner.
func (n *node) lookAt(t time.Duration) {
	if t >= n.due || t == place.Never {
		return
	}
	n.due = t
	n.seq++
	seq, starts := n.seq, n.starts
	n.w.at(t, func() {
		if n.seq == seq && n.starts == starts && n.up {
			n.due = place.Never
			n.round()
		}
	})
}

// sightings is who gossip says is alive.
func (n *node) sightings() []place.Sighting {
	if n.seen == nil {
		for _, o := range n.w.nodes {
			if n.sees[o.idx] > 0 {
				n.seen = append(n.seen, place.Sighting{Node: o.name, Disk: o.disk, Drain: o.drain})
			}
		}
		n.view.Next = 0
	}
	return n.seen
}

// round is what groups does in one (placing.round): it asks raft who is in the logs that
// the node leads and their nodes how far they are, plans, and starts what is due.
func (n *node) round() {
	w := n.w
	w.Stats.Rounds++
	seen := n.sightings()
	busy := time.Duration(0)
	known := true
	for _, l := range n.leads {
		for _, r := range l.replicas {
			if r.voting && !n.view.Nodes[r.node.name].Stable {
				n.members.Adopt(w.now, []string{r.node.name})
				known = false
			}
		}
	}
	if !known || w.now >= n.view.Next || n.view.Nodes == nil {
		placed := n.view.Placed
		n.view = n.members.Observe(w.now, seen, nil)
		if n.layout == nil || !slices.Equal(placed, n.view.Placed) {
			n.layout = nil
			w.Stats.Layouts++
			busy += layoutCost * time.Duration(len(w.nodes)*len(w.logs))
		}
	}
	busy += n.ask()
	if n.layout == nil && len(n.leads) > 0 {
		n.layout = w.layout(n.view.Placed)
	}
	var plans []place.Step
	settled := true
	for _, l := range n.leads {
		if !l.serving {
			settled = false
			continue
		}
		s := place.Plan(l.seen(), n.layout[l.id], n.view.Nodes)
		settled = settled && s.Kind == place.Settled
		plans = append(plans, s)
	}
	start, again := n.sched.Next(w.now, plans)
	for _, s := range start {
		w.carry(n, w.logs[s.Log-1], s)
	}
	w.checkOpen(n)
	n.rest = w.now + busy + roundGap
	next := min(again, n.view.Next)
	if !settled {
		next = min(next, w.now+unsettled)
	}
	if next != place.Never {
		n.lookAt(max(next, n.rest))
	}
}

// ask asks the nodes of the replicas of the logs that it leads how far they are. Being
// asked, a node starts replicas that it did not know of, and they are filled. Who just
// vanished keeps the question waiting.
func (n *node) ask() (took time.Duration) {
	w := n.w
	asked := make(map[*node]bool)
	for _, l := range n.leads {
		took += readTime
		for _, r := range l.replicas {
			if r.node == n {
				continue
			}
			asked[r.node] = true
			if l.serving && w.reach(n, r.node) && !r.filled && !r.filling {
				r.running = true
				w.fill(l, r)
			}
		}
	}
	wait := readTime
	for o := range asked {
		if w.reach(n, o) {
			w.Stats.Asks++
		} else if w.now-o.downSince < meshSilence {
			wait = askWithin
		}
	}
	return took + wait
}
