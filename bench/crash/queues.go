package crash

import (
	"cmp"
	"slices"
	"time"
)

// checkQueues holds that waiters stand in the order in which they came, and never
// change places.
func (c *checker) checkQueues() {
	paths := make(map[string][]Look)
	for _, l := range c.h.Looks {
		if !l.Partial {
			paths[l.Path] = append(paths[l.Path], l)
		}
	}
	for _, p := range sortedKeys(paths) {
		looks := paths[p]
		slices.SortFunc(looks, func(a, b Look) int { return cmp.Compare(a.From, b.From) })
		before := make(map[place]int) // places of the look before
		for _, l := range looks {
			c.inOrder(&l)
			now := make(map[place]int)
			last, lastAt := place{}, -1
			for i, w := range l.Waiters {
				a, known := c.askAt(w, &l)
				if !known {
					continue
				}
				pl := place{w, a.number}
				now[pl] = i
				at, was := before[pl]
				if !was {
					continue
				}
				if at < lastAt {
					c.violate("%v: %s waits for %s behind %s, and stood before it", l.To, pl.owner, l.Path, last.owner)
				}
				last, lastAt = pl, at
			}
			before = now
		}
	}
}

// place is one wait of one owner.
type place struct {
	owner string
	ask   int
}

// inOrder checks a queue against the times of arrival.
func (c *checker) inOrder(l *Look) {
	earliest := struct {
		owner string
		by    time.Duration
	}{by: forever}
	for i := len(l.Waiters) - 1; i >= 0; i-- {
		a, known := c.askAt(l.Waiters[i], l)
		if !known {
			continue
		}
		if a.sent > earliest.by {
			c.violate("%v: %s waits for %s before %s, who had asked by %v; it asked at %v", l.To, l.Waiters[i], l.Path,
				earliest.owner, earliest.by, a.sent)
		}
		if a.arrivedBy < earliest.by && a.arrivedBy < l.From {
			earliest.owner, earliest.by = l.Waiters[i], a.arrivedBy
		}
	}
}

// askAt is what an owner wanted when a look was taken.
func (c *checker) askAt(owner string, l *Look) (ask, bool) {
	asks := c.asks[owner]
	i, _ := slices.BinarySearchFunc(asks, l.From, func(a ask, at time.Duration) int { return cmp.Compare(a.sent, at) })
	if i == 0 || asks[i-1].ended < l.To {
		return ask{}, false
	}
	return asks[i-1], true
}
