package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check holds a step against the rules when it is started, by what is true and not
// by what its node believes.
func (w *world) check(h *host, l *raftLog, s Step, want int) {
	leader := l.replica(l.leader)
	healthy := func(r Replica) bool { return w.live(r) && r.Applied+MaxLag >= leader.Applied }
	n, sound := l.voters(healthy)
	r := l.replica(s.Replica)
	if (r == nil) != (s.Kind == Add) {
		w.fail("%v: the replica is %v", s, r)
		return
	}
	if slices.ContainsFunc(w.flights, func(f *flight) bool {
		return f.sched == h.sched && f.log == l &&
			f.ends > w.now
	}) {
		w.fail("%v: another step is under way", s)
	}
	switch s.Kind {
	case Add:
		if l.used[s.Replica] {
			w.fail("%v: the id was used", s)
		}
		return
	case Promote:
		if !healthy(*r) || r.Voting {
			w.fail("%v: %+v is not ready", s, r)
		}
		n, sound = n+1, sound+1
	case Remove:
		if r.ID == l.leader {
			w.fail("%v: it leads", s)
		}
		if !r.Voting {
			return
		}
		if healthy(*r) {
			sound--
			if n-1 < want {
				w.fail("%v: healthy, and %d voters are left of %d", s, n-1, want)
			}
		}
		n--
	case Transfer:
		if !r.Voting || !healthy(*r) {
			w.fail("%v: %+v cannot lead", s, r)
		}
	}
	if 2*sound <= n {
		w.fail("%v: %d of %d voters would be live and caught up: %+v", s, sound, n, l.replicas)
	}
}

// event is something that happens to a cluster.
type event struct {
	after int // ticks
	what  string
	node  int
}

var events = []string{"join", "crash", "restart", "wipe", "drain", "resume", "stop", "flap"}

func drawEvent(t *rapid.T) event {
	return event{
		after: rapid.IntRange(0, 9).Draw(t, "after"),
		what:  rapid.SampledFrom(events).Draw(t, "what"),
		node:  rapid.IntRange(0, 19).Draw(t, "node"),
	}
}

// happen lets an event happen unless it would be the end of a log whatever anybody
// does: disks of a majority are gone.
func (w *world) happen(e event) {
	h := w.hosts[e.node%len(w.hosts)]
	switch {
	case e.what == "join" && len(w.hosts) < 20:
		w.join()
	case e.what == "crash" && h.up:
		w.crash(h)
	case e.what == "restart" && !h.up:
		w.start(h)
	case e.what == "flap" && h.up:
		w.crash(h)
		w.tick()
		w.start(h)
	case e.what == "wipe" && w.survives(h):
		w.wipe(h)
		w.tick()
		w.start(h)
	case e.what == "drain":
		w.mark(h, DrainReplicas)
	case e.what == "resume":
		w.mark(h, DrainNothing)
	case e.what == "stop" && h.up:
		h.drain = DrainLeads
		for range 4 {
			w.tick()
		}
		if h.up {
			w.crash(h)
		}
	}
}

// survives says whether every log keeps a majority of intact disks without a node's,
// whatever the steps under way do.
func (w *world) survives(h *host) bool {
	for _, l := range w.logs {
		holds := slices.ContainsFunc(l.replicas, func(r Replica) bool { return r.Node == h.name })
		if !holds && !slices.ContainsFunc(w.flights,
			func(f *flight) bool { return f.log == l && f.step.Node == h.name }) {
			continue
		}
		if slices.ContainsFunc(w.flights, func(f *flight) bool { return f.log == l }) ||
			!l.majority(func(r Replica) bool { return w.intact(r) && r.Node != h.name }) {
			return false
		}
	}
	return true
}

// calmDown brings back who is down, but for some that no log depends on, now or after
// the steps under way, and makes an end of marks that leave nobody.
func (w *world) calmDown(stay int) {
	w.misty = false
	down, marked := 0, 0
	for _, h := range w.hosts {
		h.drain = DrainNothing
		if !h.up {
			down++
		}
		if w.marks[h.name] > DrainNothing {
			marked++
		}
	}
	for _, h := range w.hosts {
		keep := down <= stay && 4*down < len(w.hosts)
		for _, l := range w.logs {
			keep = keep && l.majority(w.live)
		}
		for _, f := range w.flights {
			keep = keep && f.step.Node != h.name && !slices.ContainsFunc(f.log.replicas,
				func(r Replica) bool { return r.Node == h.name })
		}
		if !h.up && !keep {
			w.start(h)
			down--
		}
		if marked+down >= len(w.hosts) && w.marks[h.name] > DrainNothing && h.up {
			w.mark(h, DrainNothing)
			marked--
		}
	}
}

// TestWorld lets anything happen to clusters and checks each step against the rules
// (check, apply); once it is over, every log must reach its place.
func TestWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(3, 20).Draw(t, "nodes")
		logs := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 8), rapid.IntRange(9, 64)).Draw(t, "logs")
		factor := rapid.SampledFrom([]int{3, 3, 1, 5}).Draw(t, "factor")
		w := newWorld(rapid.Uint64().Draw(t, "seed"), factor, t.Fatalf)
		w.pace.Concurrent = rapid.IntRange(1, 4).Draw(t, "concurrent")
		w.faults, w.misty = true, true
		w.found(nodes, rapid.IntRange(1, nodes).Draw(t, "founders"), logs)
		for _, e := range rapid.SliceOfN(rapid.Custom(drawEvent), 0, 10).Draw(t, "events") {
			for range e.after {
				w.tick()
			}
			w.happen(e)
		}
		w.calmDown(rapid.IntRange(0, 2).Draw(t, "stay away"))
		w.settle(200 + 100*logs/w.pace.Concurrent)
	})
}
