package groups

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is told of a run that fails: as few of its steps as fail in the same way.

// failing runs a plan again with a trace, shortened as far as it fails in the same way.
func failing(t *testing.T, p simPlan, broken string) string {
	p = shrink(t, p, broken)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d nodes, %d logs, %d segments, steps left %d:\n",
		p.seed, p.birth.nodes, p.birth.logs, p.birth.segments, len(p.steps))
	simulate(p, simDir(t), func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	return b.String()
}

// kindOf is what a violation is about, without its names and numbers.
func kindOf(broken string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, broken[:min(len(broken), 40)])
}

// shrink leaves steps out, as long as the run still fails in the same way.
func shrink(t *testing.T, p simPlan, broken string) simPlan {
	kind, until := kindOf(broken), time.Now().Add(time.Duration(envInt("PATHLOCKD_SIM_SHRINK", 20))*time.Second)
	slices.SortStableFunc(p.steps, func(a, b simStep) int { return cmp.Compare(a.at, b.at) })
	fails := func(q simPlan) bool {
		w := simulate(q, simDir(t), nil)
		return w.broken != "" && kindOf(w.broken) == kind
	}
	for n := len(p.steps) / 2; n > 0; n /= 2 { // what came after it did not matter
		for q := p; len(p.steps) > n; {
			q.steps = p.steps[:len(p.steps)-n]
			if !fails(q) {
				break
			}
			p = q
		}
	}
	for size := len(p.steps) / 2; size > 0 && time.Now().Before(until); {
		shorter := false
		for at := 0; at < len(p.steps) && time.Now().Before(until); {
			q := p
			q.steps = append(append([]simStep(nil), p.steps[:at]...), p.steps[min(at+size, len(p.steps)):]...)
			if fails(q) {
				p, shorter = q, true
			} else {
				at += size
			}
		}
		if !shorter || size > len(p.steps) {
			size = min(size/2, len(p.steps))
		}
	}
	return p
}
