package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// What a request costs is told by pairs: the same was asked in turns where there is much that
// it must not pay for and where there is little, and of each the shorter time counts. What
// slows a machine or a cluster down hits either of a pair, by the toss of a coin, and so does
// not make four fifths of them lopsided to the same side, however slow it is. Work in
// proportion makes nearly all so.
const (
	// costlier is how many times as long a request may take among much. A deeper tree and
	// colder caches cost something; work in proportion costs ten times as much, and more.
	costlier = 4
	// fewPairs say nothing.
	fewPairs = 20
)

// Costs is what came of the pairs of one kind.
type Costs struct {
	Kind  string
	Pairs int
	// Ratio is how many times as long it took among much, in half of the pairs, and Low in
	// four fifths of them at least.
	Ratio, Low float64
	// Much and Little are the times, each longer in half of the pairs.
	Much, Little time.Duration
}

func (c Costs) String() string {
	return fmt.Sprintf("%s: %.2f times as long among much in half of %d pairs, and %.2f times in four fifths (%v "+
		"and %v, p50)",
		c.Kind, c.Ratio, c.Pairs, c.Low, c.Much.Round(10*time.Microsecond), c.Little.Round(10*time.Microsecond))
}

// Decided says that there are enough pairs to judge by.
func (c Costs) Decided() bool { return c.Pairs >= fewPairs }

// Weigh looks at what a kind of request took.
func Weigh(h *history.Cost) Costs {
	c := Costs{Kind: h.Kind, Pairs: len(h.Pairs)}
	if c.Pairs == 0 {
		return c
	}
	ratio := func(p *history.Pair) float64 { return p.Ratio() }
	c.Ratio, c.Low = quantile(h.Pairs, 2, ratio), quantile(h.Pairs, 5, ratio)
	c.Much = quantile(h.Pairs, 2, func(p *history.Pair) time.Duration { return p.Much })
	c.Little = quantile(h.Pairs, 2, func(p *history.Pair) time.Duration { return p.Little })
	return c
}

// quantile is what all but one part of so many is at least.
func quantile[T cmp.Ordered](pairs []history.Pair, parts int, of func(*history.Pair) T) T {
	list := make([]T, 0, len(pairs))
	for i := range pairs {
		list = append(list, of(&pairs[i]))
	}
	slices.Sort(list)
	return list[len(list)/parts]
}

// checkCosts holds that a request costs what it touches (promise 8).
func (c *checker) checkCosts() {
	for i := range c.h.Costs {
		switch w := Weigh(&c.h.Costs[i]); {
		case !w.Decided():
			c.Unweighed = append(c.Unweighed, fmt.Sprintf("%s: %d pairs, of %d that it takes", w.Kind,
				w.Pairs, fewPairs))
		case w.Low > costlier:
			c.violate(8, "%v; it may be %d", w, costlier)
		}
	}
}
