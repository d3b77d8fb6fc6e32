package lab

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/check"
	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// CheckFaults refuses kinds of faults that there are not.
func (cfg *Config) CheckFaults() error {
	names := faultNames()
	for _, f := range cfg.Faults {
		if !slices.Contains(names, f) {
			return fmt.Errorf("fault %q must be one of %s", f, strings.Join(names, ", "))
		}
	}
	return nil
}

// Markdown is what runs came to, for docs/testing.
func Markdown(command, kind string, nodes int, reports []*Report, failed error) string {
	var b strings.Builder
	verdict := "no violation"
	if failed != nil {
		verdict = "FAILED"
	}
	where := map[string]string{"nodes": "nodes in one process, disks in memory that lose power",
		"processes": "processes on loopback, real disks"}[kind]
	fmt.Fprintf(&b, "# Torture: %d %s: %s\n\n", nodes, kind, verdict)
	fmt.Fprintf(&b, "`%s`, %s, commit %s, %s, on %d cores (%s/%s, %s): %s.\n\n", command,
		time.Now().UTC().Format(time.DateOnly),
		commit(), runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, "shared with the load", where)
	b.WriteString("| seed | took | episodes | operations | answered | refused | unknown | granted | told to wait | " +
		"accesses | replicas compared | undecided | violations |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	faultCount := make(map[string]int)
	for _, r := range reports {
		fmt.Fprintf(&b, "| %d | %v | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.Seed,
			r.Took.Round(time.Second), r.Episodes, r.Operations,
			r.Outcomes[1], r.Outcomes[2], r.Outcomes[0], r.Granted, r.Queued, r.Accesses, r.Compared, r.Undecided,
			len(r.Violations))
		for k, n := range r.FaultCounts {
			faultCount[k] += n
		}
	}
	b.WriteString("\nFaults: ")
	for i, k := range slices.Sorted(maps.Keys(faultCount)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", k, faultCount[k])
	}
	b.WriteString(".\n")
	heard, gaps := 0, 0
	for _, r := range reports {
		heard, gaps = heard+r.Heard, gaps+r.Gaps
	}
	fmt.Fprintf(&b, "\nSubscribers that went from node to node heard %d events, and %d times that they had "+
		"missed some.\n", heard, gaps)
	b.WriteString(resumption(reports))
	b.WriteString(silence(reports))
	b.WriteString(costs(reports))
	b.WriteString("\n\"Unknown\" is what clients never learned the outcome of; \"undecided\" counts namespaces of " +
		"an episode whose\nlinearizability could not be decided in time.\n")
	for _, r := range reports {
		for _, v := range r.Violations {
			fmt.Fprintf(&b, "\n- seed %d: %s\n", r.Seed, v)
		}
	}
	if failed != nil {
		fmt.Fprintf(&b, "\n%v\n", failed)
	}
	return b.String()
}

// costs is what requests took beside much that they must not pay for.
func costs(reports []*Report) string {
	all, verdicts, ballast := []history.Cost(nil), make(map[string]int), 0
	for _, r := range reports {
		all, ballast = merged(all, r.Costs), r.Ballast
		for k, n := range r.Weighed {
			verdicts[k] += n
		}
	}
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWhat was asked among %d locks and %d waiters of others, and right before or after it where "+
		"there are few:\n\n"+
		"| request | pairs | verdicts | among much (p50) | among little (p50) | times as long, in half of the pairs "+
		"| in four fifths, at least |\n|---|---|---|---|---|---|---|\n", ballast, ballast/locksAWaiter)
	for i := range all {
		c := check.Weigh(&all[i])
		fmt.Fprintf(&b, "| %s | %d | %d | %v | %v | %.2f | %.2f |\n", c.Kind, c.Pairs, verdicts[c.Kind],
			c.Much.Round(10*time.Microsecond), c.Little.Round(10*time.Microsecond), c.Ratio, c.Low)
	}
	b.WriteString("\nA kind without a verdict is undecided: there were too few pairs of it.\n")
	return b.String()
}

// resumption is how long leaders were missed: from the fault until something was
// acknowledged in every log.
func resumption(reports []*Report) string {
	took := make(map[string][]time.Duration)
	for _, r := range reports {
		for _, x := range r.Resumed {
			took[x.Kind] = append(took[x.Kind], x.Took)
		}
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(took)) {
		t := took[k]
		slices.Sort(t)
		at := func(p float64) time.Duration { return t[int(p*float64(len(t)-1))].Round(time.Millisecond) }
		fmt.Fprintf(&b, "\nAfter %d × %s of a node that led a log, something was acknowledged in every log after %v "+
			"(p50), %v (p90), %v (max).\n",
			len(t), k, at(.5), at(.9), at(1))
	}
	return b.String()
}

// silence is how long logs took no writes: a row for each kind of fault, over all its faults and
// all logs.
func silence(reports []*Report) string {
	kinds, healthy, unfounded, election := make(map[string][]Silence), 0, 0, time.Duration(0)
	for _, r := range reports {
		for _, x := range r.Silences {
			kinds[x.Kind] = append(kinds[x.Kind], x)
		}
		healthy, unfounded, election = healthy+r.Healthy, unfounded+len(r.Unfounded), r.Election
	}
	if len(kinds) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nThe longest time without a write to a log, from the fault on until the next one, and of that " +
		"from when the fault was\n" +
		"taken back on:\n\n| fault | faults × logs | p50 | p90 | p99 | max | once healed p50 | p90 | p99 | max | " +
		"above two election timeouts |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		s, late := kinds[k], 0
		fmt.Fprintf(&b, "| %s | %d |", k, len(s))
		for _, of := range []func(Silence) time.Duration{func(x Silence) time.Duration { return x.All },
			func(x Silence) time.Duration { return x.Healed }} {
			slices.SortFunc(s, func(x, y Silence) int { return cmp.Compare(of(x), of(y)) })
			for _, p := range []float64{.5, .9, .99, 1} {
				fmt.Fprintf(&b, " %v |", of(s[int(p*float64(len(s)-1))]).Round(time.Millisecond))
			}
		}
		for _, x := range s {
			if x.Healed > 2*election {
				late++
			}
		}
		fmt.Fprintf(&b, " %d |\n", late)
	}
	fmt.Fprintf(&b, "\nNodes said %d times that the cluster is healthy; %d times a log took no write within two "+
		"election timeouts (%v) after that,\n"+
		"though nothing was done to the cluster.\n", healthy, unfounded, 2*election)
	return b.String()
}

// commit is what this program was built from.
func commit() string {
	rev, dirty := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				rev = s.Value[:min(len(s.Value), 9)]
			case "vcs.modified":
				if s.Value == "true" {
					dirty = " and changes"
				}
			}
		}
	}
	return rev + dirty
}
