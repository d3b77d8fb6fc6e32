package lab

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/check"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
)

const (
	// checkWithin is how long it may take to judge one episode.
	checkWithin = 2 * time.Minute
	// moreEpisodes are played at most when what there was is not enough.
	moreEpisodes = 3
)

// Config is a run.
type Config struct {
	Seed      uint64
	Duration  time.Duration // of all episodes together
	Episode   time.Duration // of one, without its end
	Apart     time.Duration // for how long a node that gets its logs back is isolated at most; 0: 9 s
	Election  time.Duration // the longest election timeout of the nodes; 0: 3 s, as configured by default
	Clients   int
	Faults    []string // kinds of faults; empty: all that the cluster can
	MaxFaults int      // after which the run ends, 0: Duration says
	// Sit has long leases watched until they end, in a log that is kept busy, which takes a good part
	// of a core.
	Sit bool
	// Ballast is how many locks there are that a request must not pay for, 0: what requests cost
	// is not looked at.
	Ballast int
	// Enough says whether a run that would end has shown what it is for: a machine that is
	// busy may have done little by then, and plays a few episodes more. nil: it always has.
	Enough func(*Report) bool
	// Keep is where histories that break promises are kept, "" for nowhere.
	Keep string
	Logf func(format string, args ...any)
}

// Report is what came of a run.
type Report struct {
	Seed        uint64
	Took        time.Duration
	Episodes    int
	Operations  int
	Outcomes    [3]int // by history.Outcome
	Granted     int
	Queued      int
	Accesses    int
	Compared    int // digests
	Heard       int // events that subscribers heard
	Gaps        int // that subscribers were told of
	Ballast     int // locks
	Costs       []history.Cost
	FaultCounts map[string]int
	Resumed     []Resumed
	Silences    []Silence
	Election    time.Duration // as configured
	Healthy     int           // times that a node said that the cluster is healthy
	// how long a log took no write after that, where that was longer than two election timeouts
	Unfounded  []time.Duration
	Violations []check.Violation
	Undecided  int
	Weighed    map[string]int // verdicts of what a kind of request costs
	Histories  []string       // files of what broke promises
}

// Run plays episodes until the time is over, or a promise is broken. An error says that
// the run itself failed.
func Run(ctx context.Context, cfg Config, c cluster.Cluster) (*Report, error) {
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	r := &Report{Seed: cfg.Seed, Ballast: cfg.Ballast, Election: cmp.Or(cfg.Election, electionMost),
		FaultCounts: make(map[string]int), Weighed: make(map[string]int)}
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	b := newBallast(&cfg, c)
	if b != nil {
		b.loadFirst(ctx)
	}
	struck := 0
	var few []history.Cost // pairs of earlier episodes that were too few for a verdict
	for n, more := 0, 0; ; n++ {
		if n > 0 && (time.Since(began)+cfg.Episode/2 >= cfg.Duration || cfg.MaxFaults > 0 && struck >= cfg.MaxFaults) {
			if cfg.Enough == nil || more == moreEpisodes || struck >= cfg.MaxFaults && cfg.Enough(r) {
				return r, nil
			}
			more++
		}
		h, e, err := runEpisode(ctx, &cfg, c, b, n, struck)
		if h == nil {
			return r, err
		}
		struck = e.struck
		r.Resumed = append(r.Resumed, e.resumed...)
		r.heard(&e.beating, h)
		r.count(h, e.faultCounts)
		h.Costs = merged(few, h.Costs)
		result := judge(h)
		few = r.verdicts(h.Costs)
		r.Violations = append(r.Violations, result.Violations...)
		r.Undecided += len(result.Undecided)
		cfg.Logf("episode %d: %d operations, %d granted, %d events heard, %d gaps, faults %v, %d violations, %d "+
			"namespaces undecided; %v so far",
			n, len(h.Ops), r.Granted, r.Heard, r.Gaps, e.faultCounts, len(result.Violations), len(result.Undecided),
			time.Since(began).Round(time.Second))
		if len(result.Violations) > 0 && cfg.Keep != "" {
			name := filepath.Join(cfg.Keep, fmt.Sprintf("history-%d-%d.json", cfg.Seed, n))
			if e := h.Save(name); e != nil {
				return r, e
			}
			r.Histories = append(r.Histories, name)
		}
		if err != nil || len(result.Violations) > 0 {
			return r, err
		}
	}
}

func (r *Report) count(h *history.History, faultCount map[string]int) {
	r.Episodes++
	r.Operations += len(h.Ops)
	r.Accesses += len(h.Accesses)
	r.Compared += len(h.Digests)
	for i := range h.Ops {
		op := &h.Ops[i]
		r.Outcomes[op.Outcome]++
		if op.Kind == history.Acquire && op.OK() {
			r.Granted++
		}
		if op.Queued() {
			r.Queued++
		}
	}
	for i := range h.Ears {
		for j := range h.Ears[i].Heard {
			if h.Ears[i].Heard[j].Gap {
				r.Gaps++
			} else {
				r.Heard++
			}
		}
	}
	r.Costs = merged(r.Costs, h.Costs)
	for k, n := range faultCount {
		r.FaultCounts[k] += n
	}
}

// heard takes down what was seen of the logs while faults struck.
func (r *Report) heard(b *beating, h *history.History) {
	end := h.Settled
	if end == 0 {
		return // it was cut short, and says nothing
	}
	r.Silences = append(r.Silences, b.silences(h.Faults, end)...)
	r.Healthy += len(b.healthy)
	r.Unfounded = append(r.Unfounded, b.unfounded(h.Faults, end, 2*r.Election)...)
}

// verdicts counts the kinds that there were enough pairs of, and answers the others.
func (r *Report) verdicts(costs []history.Cost) (few []history.Cost) {
	for i := range costs {
		if c := check.Weigh(&costs[i]); c.Decided() {
			r.Weighed[c.Kind]++
		} else {
			few = append(few, costs[i])
		}
	}
	return few
}

// merged is the pairs of both lists, by kind.
func merged(before, costs []history.Cost) []history.Cost {
	all := slices.Clone(before)
	for _, x := range costs {
		i := slices.IndexFunc(all, func(c history.Cost) bool { return c.Kind == x.Kind })
		if i < 0 {
			i, all = len(all), append(all, history.Cost{Kind: x.Kind})
		}
		all[i].Pairs = append(all[i].Pairs, x.Pairs...)
	}
	return all
}
