package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// Scenario is something that happens to a cluster.
type Scenario struct {
	Name string
	What string
	// founders of so many nodes have the logs at first; the others come.
	founders func(nodes int) int
	// happen lets it happen, and answers when it is over and healing is all that is left.
	happen func(w *World)
	// least is the number of nodes below which it is another scenario.
	least int
	// storm says that every node sees something new again and again: with hundreds of
	// nodes that takes minutes to play.
	storm bool
}

// Times of scenarios.
const (
	shortAway    = 20 * time.Second
	longAway     = 5 * time.Minute
	flapDown     = 20 * time.Second
	flapUp       = 40 * time.Second
	flaps        = 10
	restart      = 10 * time.Second // a node is down for, when it is restarted
	settleMax    = 2 * time.Hour
	rollPatience = time.Minute // how long the next restart waits for the last
	// rolled is how many nodes of a large cluster are restarted: the others are no
	// different.
	rolled = 50
)

// Scenarios are all there are.
var Scenarios = []Scenario{
	{Name: "join", What: "one node joins", founders: allBut(1), happen: joins},
	{Name: "grow", What: "a tenth of the nodes join at once", founders: tenthLess, happen: joins, least: 20},
	{Name: "death", What: "a node dies for good", happen: func(w *World) { w.crash(w.logs[0].leader.node) }},
	{Name: "restart", What: "a node dies and is back after 20 s",
		happen: func(w *World) { w.away(w.logs[0].leader.node, shortAway) }},
	{Name: "return", What: "a node dies and is back after 5 min",
		happen: func(w *World) { w.away(w.logs[0].leader.node, longAway) }},
	{Name: "rack", What: "a tenth of the nodes die at once and are back after 5 min", happen: func(w *World) {
		tenth := w.tenth()
		for _, n := range tenth {
			w.crash(n)
		}
		w.run(w.now + longAway)
		for _, n := range tenth {
			w.start(n)
		}
	}, least: 20},
	{Name: "half", What: "two halves do not hear each other for 5 min", happen: func(w *World) {
		w.split(func(n *node) bool { return n.idx%2 == 1 })
		w.run(w.now + longAway)
		w.heal()
	}, storm: true},
	{Name: "flap", What: "a tenth of the nodes, at least one, are down for 20 s and up for 40 s, ten times",
		happen: func(w *World) {
			for range flaps {
				for _, n := range w.tenth() {
					w.crash(n)
				}
				w.run(w.now + flapDown)
				for _, n := range w.tenth() {
					w.start(n)
				}
				w.run(w.now + flapUp)
			}
		}},
	{Name: "roll", What: "nodes are restarted one after the other: drained, down for 10 s, waited for",
		happen: func(w *World) {
			for _, n := range w.nodes[:min(len(w.nodes), rolled)] {
				w.roll(n)
			}
		}, storm: true},
}

func allBut(n int) func(int) int { return func(nodes int) int { return nodes - n } }

func tenthLess(nodes int) int { return nodes - nodes/10 }

// joins starts the nodes that are not there yet.
func joins(w *World) {
	for _, n := range w.nodes {
		if n.starts == 0 {
			w.start(n)
		}
	}
}

// tenth is every tenth node.
func (w *World) tenth() (out []*node) {
	for i := 0; i < len(w.nodes); i += 10 {
		out = append(out, w.nodes[i])
	}
	return out
}

// away has a node be down for a time.
func (w *World) away(n *node, d time.Duration) {
	w.crash(n)
	w.run(w.now + d)
	w.start(n)
}

// roll restarts a node as its stop does (groups, handAway): it says that it is drained,
// gives all it leads away at once, leaves, and is back a little later. The next one waits
// until this one has caught up.
func (w *World) roll(n *node) {
	n.drain = place.DrainLeads
	for _, o := range w.nodes {
		w.after(w.chance(3*gossipEvery), func() {
			o.seen = nil
			if o.up {
				o.wake()
			}
		})
	}
	for _, l := range n.leads {
		for _, r := range l.replicas {
			if r != l.leader && l.wins(r) && r.node.drain == place.DrainNothing {
				w.handOver(l, place.Step{Kind: place.Transfer, Log: l.id, Replica: r.id},
					w.now+handAwayWithin, func() {})
				break
			}
		}
	}
	w.wait(handAwayWithin, func() bool { return len(n.leads) == 0 })
	w.crash(n)
	w.rumour(n, false)
	w.run(w.now + restart)
	w.start(n)
	w.wait(rollPatience, func() bool {
		return n.up && !slices.ContainsFunc(w.logs, func(l *raftLog) bool {
			return !l.serving || slices.ContainsFunc(l.replicas, func(r *replica) bool { return !r.sound() })
		})
	})
}

// wait lets time pass until something is so.
func (w *World) wait(limit time.Duration, until func() bool) {
	for end := w.now + limit; w.now < end && !until(); {
		w.run(w.now + roundGap)
	}
}

// Result is what came of a scenario.
type Result struct {
	Scenario  string
	Config    Config
	Before    Spread
	After     Spread
	Voters    time.Duration // from the beginning until the last change of members
	Leaders   time.Duration // and until everybody led what it should
	Unsettled string        // what is not as it should be at the end; empty: nothing
	Stats
}

// Play plays a scenario.
func (s *Scenario) Play(c Config) Result {
	founders := c.Nodes
	if s.founders != nil {
		founders = s.founders(c.Nodes)
	}
	w := New(c, founders)
	r := Result{Scenario: s.Name, Config: w.c, Before: w.Spread()}
	began := w.now
	s.happen(w)
	r.Unsettled = w.Settle(settleMax)
	r.Leaders = w.now - began
	r.Voters = max(w.Stats.LastVoter-began, 0)
	if r.Unsettled == "" {
		w.checkSpread()
	}
	r.After, r.Stats = w.Spread(), w.Stats
	return r
}

// quick is how many nodes a storm may have that is played within a minute.
const quick = 100

// Fits says whether the scenario is one of its own with so many nodes, and whether it is
// played within a minute or so.
func (s *Scenario) Fits(nodes int) (own, soon bool) {
	return nodes >= s.least, !s.storm || nodes <= quick
}

// quantile of times: the least that a share of them do not exceed.
func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	times = slices.Sorted(slices.Values(times))
	return times[min(int(share*float64(len(times))), len(times)-1)]
}

// atOnce is the most times within d.
func atOnce(times []time.Duration, d time.Duration) (most int) {
	times = slices.Sorted(slices.Values(times))
	first := 0
	for i, t := range times {
		for t-times[first] > d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// String is the result as a line of Go's benchmarks.
func (r *Result) String() string {
	c := &r.Config
	mean := float64(c.Logs+1) / float64(max(r.After.Up, 1))
	s := fmt.Sprintf("BenchmarkScale/what=%s/nodes=%d/logs=%d/factor=%d", r.Scenario, c.Nodes, c.Logs, c.Factor)
	for _, m := range []struct {
		value float64
		unit  string
	}{
		{r.Voters.Seconds(), "voters-s"}, {r.Leaders.Seconds(), "leaders-s"},
		{float64(r.Added), "added"}, {float64(r.Removed), "removed"}, {r.Sent / 1e6, "sent-MB"},
		{float64(r.Transfers), "transfers"}, {float64(r.Elections), "elections"}, {float64(r.Splits), "splits"},
		{float64(atOnce(r.ElectedAt, time.Second)), "elected-in-1-s"},
		{quantile(r.Leaderless, 0.5).Seconds(), "leaderless-p50-s"}, {quantile(r.Leaderless, 0.99).Seconds(),
			"leaderless-p99-s"},
		{quantile(r.Leaderless, 1).Seconds(), "leaderless-max-s"},
		{float64(r.NoMajority), "no-majority"},
		{float64(r.OpenNode), "changed-node"}, {float64(r.OpenAll), "changed-all"},
		{float64(r.FillNode), "filled-node"}, {float64(r.FillAll), "filled-all"},
		{float64(r.LeadsWorst) / mean, "leads-worst-of-mean"},
		{float64(r.After.LeadsMax) / mean, "leads-after-of-mean"},
		{float64(r.After.VotersMax - r.After.VotersMin), "voters-spread"},
		{float64(r.Rounds) / float64(c.Nodes), "rounds/node"}, {float64(r.Layouts) / float64(c.Nodes), "layouts/node"},
		{float64(r.Notices) / float64(c.Nodes), "notices/node"}, {float64(r.Asks) / float64(c.Nodes), "asks/node"},
		{float64(r.violationsN), "violations"},
	} {
		s += fmt.Sprintf("\t%.4g %s", m.value, m.unit)
	}
	return s
}
