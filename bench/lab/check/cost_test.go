package check

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// TestCosts: what a request may cost where there is much, and what a slow machine is not
// taken for.
func TestCosts(t *testing.T) {
	const ms = time.Millisecond
	of := func(n int, much, little time.Duration) (list []history.Pair) {
		for i := range n {
			list = append(list, history.Pair{At: time.Duration(i) * time.Second, Much: much, Little: little})
		}
		return list
	}
	and := func(lists ...[]history.Pair) (all []history.Pair) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, one := range map[string]struct {
		pairs     []history.Pair
		want      string
		unweighed bool
	}{
		"the same":                     {of(100, 2*ms, 2*ms), "", false},
		"somewhat more":                {of(100, 7*ms, 2*ms), "", false},
		"in proportion":                {of(100, 90*ms, 2*ms), "45.00 times", false},
		"in proportion, slow machine":  {of(100, 9000*ms, 200*ms), "45.00 times", false},
		"in proportion, and noise":     {and(of(85, 90*ms, 2*ms), of(15, 90*ms, 900*ms)), "45.00 times", false},
		"in proportion, seen too late": {and(of(50, 2*ms, 2*ms), of(100, 90*ms, 2*ms)), "", false},
		"noise at both sides":          {and(of(50, 2000*ms, ms), of(50, ms, 2000*ms)), "", false},
		"noise at one side":            {and(of(75, 2000*ms, ms), of(25, ms, ms)), "", false},
		"few":                          {of(19, 900*ms, ms), "", true},
		"enough":                       {of(20, 900*ms, ms), "900.00 times", false},
		"none":                         {nil, "", true},
		"no time at all":               {of(20, 0, 0), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(&history.History{Costs: []history.Cost{{Kind: "a look", Pairs: one.pairs},
				{Kind: "another", Pairs: of(30, ms, ms)}}}, time.Minute)
			switch {
			case one.want == "" && len(got.Violations) > 0:
				t.Errorf("violations: %v", got.Violations)
			case one.want != "" && (len(got.Violations) != 1 || got.Violations[0].Promise != 8 ||
				!strings.Contains(got.Violations[0].Text, one.want) ||
				!strings.Contains(got.Violations[0].Text, "a look")):
				t.Errorf("violations: %v, want one with %q", got.Violations, one.want)
			}
			if (len(got.Unweighed) > 0) != one.unweighed {
				t.Errorf("unweighed: %v", got.Unweighed)
			}
		})
	}
}
