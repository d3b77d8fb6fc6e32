package check

import (
	"cmp"
	"slices"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// checkOverlap holds that no two owners were sure of conflicting locks at once
// (promise 1), that who was sure of one is found to have it (7), and that nobody gets what
// an earlier one waits for (6).
func (c *checker) checkOverlap() {
	holds, places := c.sureSpans()
	byTime := func(a, b span) int { return cmp.Compare(a.from, b.from) }
	slices.SortStableFunc(holds, byTime)
	slices.SortStableFunc(places, byTime)
	c.exclusive(holds)
	c.seen(holds)
	c.overtaken(places)
	c.resource(holds)
}

// exclusive checks holds against each other.
func (c *checker) exclusive(holds []span) {
	now := make(map[string][]span) // by namespace
	for _, h := range holds {
		list := slices.DeleteFunc(now[h.namespace], func(o span) bool { return o.to <= h.from })
		with := uint32(0)
		for _, o := range list {
			if o.owner == h.owner || !conflict(c.weakest(h.namespace), h.claim, o.claim) {
				continue
			}
			if with++; h.Permits == 0 || with >= h.Permits {
				c.violate(1, "%v is held by %s since %.3fs until %.3fs at least, and by %s since %.3fs", h.Paths,
					o.owner, o.from.Seconds(), o.to.Seconds(), h.owner, h.from.Seconds())
			}
		}
		now[h.namespace] = append(list, h)
	}
}

// seen checks what paths looked like against who was sure to hold them.
func (c *checker) seen(holds []span) {
	for _, h := range holds {
		for _, op := range c.spaces[h.namespace] {
			if op.Kind != history.Look || op.Outcome != history.Answered || op.Call < h.from || op.Return >= h.to ||
				!slices.Contains(h.Paths, op.Paths[0]) {
				continue
			}
			if !slices.ContainsFunc(op.Holders, func(x history.Holder) bool { return x.Owner == h.owner }) {
				c.violate(7, "%s holds it until %.3fs at least, and is not seen: %s", h.owner, h.to.Seconds(),
					Describe(op))
			}
		}
	}
}

// overtaken checks that who came later did not get what somebody had a place for, or
// held, all the time from before it first asked.
func (c *checker) overtaken(places []span) {
	for _, w := range places {
		if w.Permits > 0 {
			continue // who was granted one permit does not keep others from the next
		}
		for _, op := range c.spaces[w.namespace] {
			late := c.claims[op.Owner]
			if op.Kind != history.Acquire || !op.OK() || op.Owner == w.owner || late.Call <= w.from ||
				op.Return >= w.to {
				continue
			}
			if conflict(c.weakest(w.namespace), w.claim, late) {
				c.violate(6, "%s waits since %.3fs until %.3fs at least, and %s, who came at %.3fs, gets what it "+
					"waits for: %s",
					w.owner, w.from.Seconds(), w.to.Seconds(), op.Owner, late.Call.Seconds(), Describe(op))
			}
		}
	}
	for _, w := range places {
		c.inOrder(w)
	}
}

// inOrder checks looks at a queue: who came after a waiter had its place stands behind it.
func (c *checker) inOrder(w span) {
	for _, op := range c.spaces[w.namespace] {
		if op.Kind != history.Look || op.Outcome != history.Answered || op.Return >= w.to {
			continue
		}
		at := slices.Index(op.Waiters, w.owner)
		for i := 0; i < at; i++ {
			if o := c.claims[op.Waiters[i]]; o != nil && o.Call > w.from {
				c.violate(6, "%s waits since %.3fs, and stands behind %s, who came at %.3fs: %s", w.owner,
					w.from.Seconds(), o.owner, o.Call.Seconds(), Describe(op))
			}
		}
	}
}

// checkQueues holds that nobody waits in vain (promise 6).
func (c *checker) checkQueues() {
	for _, s := range c.h.Stuck {
		c.violate(6, "%s", s)
	}
}
