package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/bench/gauge"
	sim "github.com/pathlockd/pathlockd/bench/sim"
)

// scaleCommand lets things happen to simulated clusters and tells what came of it. It is
// not well when a rule was broken, or when a cluster does not come to rest.
func scaleCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	nodes := fs.String("nodes", "5,50,500", "numbers of nodes, comma-separated")
	logs := fs.String("logs", "16,256,1024", "values of log_count, comma-separated")
	factors := fs.String("factor", "3,5", "values of replication_factor, comma-separated")
	what := fs.String("what", ".", "play only the scenarios that this `regexp` matches")
	long := fs.Bool("long", false, "play halves and rolling restarts of hundreds of nodes too: several minutes each")
	locks := fs.Int("locks", 10_000_000, "locks that are held in the whole cluster")
	seed := fs.Uint64("seed", 1, "of chance: a run with the same is the same")
	list := fs.Bool("list", false, "tell the scenarios and leave")
	measure := fs.Bool("measure", false, "measure gossip, connections and snapshots on this machine instead: "+
		"two minutes")
	held := fs.Int("held", 1_000_000, "with --measure: locks in the state that is measured; 10 M take some 5 GiB")
	short := fs.Bool("short", false, "with --measure: a few seconds, to see that it works")
	if err := parse(fs, args); err != nil {
		return false, err
	}
	wanted, err := regexp.Compile(*what)
	if err != nil {
		fmt.Fprintln(stderr, "bench: --what:", err)
		return false, errUsage
	}
	if *list {
		for _, s := range sim.Scenarios {
			fmt.Fprintf(stdout, "%-8s %s\n", s.Name, s.What)
		}
		return true, nil
	}
	r := newReport(".", nil, false)
	r.Command = strings.Join(append([]string{"bench scale"}, args...), " ")
	fmt.Fprint(stdout, r.head())
	if *measure {
		return true, measureScale(ctx, *held, *short, stdout)
	}
	var counts [3][]int
	for i, f := range []struct{ name, value string }{{"--nodes", *nodes}, {"--logs", *logs}, {"--factor", *factors}} {
		for s := range strings.SplitSeq(f.value, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(s))
			if err != nil || n < 3 || n > 1024 {
				fmt.Fprintf(stderr, "bench: %s %q: must be numbers from 3 to 1024\n", f.name, f.value)
				return false, errUsage
			}
			counts[i] = append(counts[i], n)
		}
	}
	well := true
	for _, n := range counts[0] {
		for _, l := range counts[1] {
			for _, factor := range counts[2] {
				c := sim.Config{Nodes: n, Logs: l, Factor: factor, Seed: *seed, Locks: *locks}
				t := sim.NewTraffic(c)
				fmt.Fprintln(stdout, t.String())
				for i := range sim.Scenarios {
					s := &sim.Scenarios[i]
					if ctx.Err() != nil {
						return false, context.Cause(ctx)
					}
					if own, soon := s.Fits(n); own && (soon || *long) && wanted.MatchString(s.Name) {
						well = play(s, c, stdout, stderr) && well
					}
				}
			}
		}
	}
	return well, nil
}

// play plays one scenario and says whether all was well.
func play(s *sim.Scenario, c sim.Config, stdout, stderr io.Writer) bool {
	began := time.Now()
	r := s.Play(c)
	fmt.Fprintln(stdout, r.String())
	fmt.Fprintf(stderr, "%s, %d nodes, %d logs: took %v\n", s.Name, c.Nodes, c.Logs,
		time.Since(began).Round(time.Millisecond))
	for _, v := range r.Violations {
		fmt.Fprintln(stdout, "# VIOLATION", v)
	}
	if r.Unsettled != "" {
		fmt.Fprintln(stdout, "# NOT AT REST", r.Unsettled)
	}
	return len(r.Violations) == 0 && r.Unsettled == ""
}

// measureScale measures what the simulation is told.
func measureScale(ctx context.Context, locks int, short bool, stdout io.Writer) error {
	sizes, calm, watch := []int{5, 30}, 10*time.Second, 30*time.Second
	if short {
		sizes, calm, watch, locks = []int{3}, 0, time.Second, 1000
	}
	snap, err := gauge.MeasureSnapshot(locks, max(locks/100, 1))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BenchmarkSnapshot/locks=%d\t%.1f heap-B/lock\t%.1f snapshot-B/lock\t%.0f locks/s\n",
		snap.Locks, snap.Heap, snap.Bytes, float64(snap.Locks)/snap.Took.Seconds())
	for _, n := range sizes {
		l, err := gauge.MeasureLinks(ctx, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "BenchmarkLinks/nodes=%d\t%d conns\t%.0f B/end\t%.2f s\n", l.Nodes, l.Conns, l.Bytes,
			l.Made.Seconds())
	}
	for _, n := range sizes {
		g, err := gauge.MeasureGossip(ctx, n, calm, watch)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "BenchmarkGossip/nodes=%d\t%.2f joined-s\t%.2f packets/s\t%.0f B/s\t%.2f missed-s\t%.2f "+
			"all-missed-s\n",
			g.Nodes, g.Joined.Seconds(), g.Packets, g.Bytes, g.Missed.Seconds(), (g.Missed + g.Spread).Seconds())
	}
	return nil
}
