package crash

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// tick is how much the lease clock may lose when a server is killed, and how
	// late a lease may be seen to end.
	tick = time.Second
	// noise is what a busy machine may add to that.
	noise = 1500 * time.Millisecond
)

// checker holds what all checks share.
type checker struct {
	h          *History
	byOwner    map[string][]Op
	byPath     map[string]map[string]bool // owners that ever asked for it
	violations []string

	// What following the owners brings to light, for the checks across owners.
	mints  []mint
	holds  []hold
	grants []grant
	asks   map[string][]ask
}

// Check answers how a history breaks the promises, nothing if it does not.
func Check(h *History) []string {
	c := &checker{h: h, byOwner: make(map[string][]Op), byPath: make(map[string]map[string]bool),
		asks: make(map[string][]ask)}
	for _, op := range h.Ops {
		c.byOwner[op.Owner] = append(c.byOwner[op.Owner], op)
		for _, p := range op.Paths {
			if c.byPath[p] == nil {
				c.byPath[p] = make(map[string]bool)
			}
			c.byPath[p][op.Owner] = true
		}
	}
	looks := c.looksByOwner()
	for _, owner := range sortedKeys(c.byOwner) {
		slices.SortStableFunc(c.byOwner[owner], func(a, b Op) int { return cmp.Compare(a.Sent, b.Sent) })
		c.follow(owner, looks[owner])
	}
	c.checkTokens()
	c.checkExclusion()
	c.checkQueues()
	c.checkPolicies()
	c.checkCounter()
	return c.violations
}

func (c *checker) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// looksByOwner gives each owner the looks at its paths, and finds those that show
// somebody who never asked.
func (c *checker) looksByOwner() map[string][]Look {
	all := make(map[string][]Look)
	for _, l := range c.h.Looks {
		known := c.byPath[l.Path]
		for _, h := range l.Holders {
			if !known[h.Owner] {
				c.violate("%v: %s is held by %q, who never asked for it", l.To, l.Path, h.Owner)
			}
			if l.Partial {
				all[h.Owner] = append(all[h.Owner], l)
			}
		}
		for _, w := range l.Waiters {
			if !known[w] {
				c.violate("%v: %q waits for %s, and never asked for it", l.To, w, l.Path)
			}
		}
		if !l.Partial {
			for owner := range known {
				all[owner] = append(all[owner], l)
			}
		}
	}
	// That somebody is in the way says that he holds the lock.
	for _, op := range c.h.Ops {
		if op.Blocker != "" {
			all[op.Blocker] = append(all[op.Blocker], Look{
				From: op.Sent, To: op.Ended, Path: op.Paths[0], Partial: true, Holders: []Holder{{Owner: op.Blocker}},
			})
		}
	}
	return all
}

// leaseEnd is when a lease surely is over that had so much left at a time. The
// clock stands still while there is no server, and the next one goes on from the
// last entry, which is at most a tick older than the kill.
func (c *checker) leaseEnd(at, ttl time.Duration) time.Duration {
	if at == forever {
		return forever
	}
	end := at + ttl + tick + noise
	for _, o := range c.h.Outages {
		if o.To > at && o.From < end {
			end += o.To - o.From + tick
		}
	}
	return end
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
