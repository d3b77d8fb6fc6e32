package crash

import (
	"cmp"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The checks across owners.

// checkTokens holds that what a namespace mints only grows: a token that is asked
// for after another was told is above that. Tokens that callers brought, and fences
// that were seen, count as told.
func (c *checker) checkTokens() {
	spaces := make(map[string][]mint)
	for _, m := range c.mints {
		spaces[m.namespace] = append(spaces[m.namespace], m)
	}
	for _, l := range c.h.Looks {
		if l.Fence != 0 {
			spaces[l.Namespace] = append(spaces[l.Namespace], mint{"the fence of " + l.Path, l.Namespace, l.From, l.To,
				l.Fence, true})
		}
	}
	for _, op := range c.h.Ops {
		if op.Kind == Increment && op.Answered && op.Refused == wire.OK {
			spaces[op.Namespace] = append(spaces[op.Namespace], mint{op.Owner, op.Namespace, op.Sent, op.Ended,
				op.Token, false})
		}
	}
	for _, name := range sortedKeys(spaces) {
		c.growing(name, spaces[name])
	}
	c.checkGrants()
	c.checkFences()
}

// growing checks the tokens of one namespace.
func (c *checker) growing(namespace string, all []mint) {
	told := slices.Clone(all)
	slices.SortFunc(told, func(a, b mint) int { return cmp.Compare(a.to, b.to) })
	slices.SortFunc(all, func(a, b mint) int { return cmp.Compare(a.from, b.from) })
	var high mint
	minted := make(map[int64]mint)
	for _, m := range all {
		for len(told) > 0 && told[0].to < m.from {
			if told[0].token > high.token {
				high = told[0]
			}
			told = told[1:]
		}
		if m.floor {
			continue
		}
		if m.token <= high.token {
			c.violate("%v: %s is told token %d of %s, asked for at %v; at %v %s was told %d", m.to, m.owner, m.token,
				namespace, m.from, high.to, high.owner, high.token)
		}
		if other, again := minted[m.token]; again {
			c.violate("%v: %s is told token %d of %s, as %s was at %v", m.to, m.owner, m.token, namespace,
				other.owner, other.to)
		}
		minted[m.token] = m
	}
}

// checkGrants holds that the write locks of a path are given in the order in which
// they were asked for: their tokens grow in that order.
func (c *checker) checkGrants() {
	paths := make(map[string][]grant)
	for _, g := range c.grants {
		for _, p := range g.paths {
			paths[p] = append(paths[p], g)
		}
	}
	for _, p := range sortedKeys(paths) {
		all := paths[p]
		arrived := slices.Clone(all)
		slices.SortFunc(arrived, func(a, b grant) int { return cmp.Compare(a.ask.arrivedBy, b.ask.arrivedBy) })
		slices.SortFunc(all, func(a, b grant) int { return cmp.Compare(a.ask.sent, b.ask.sent) })
		var high grant
		for _, g := range all {
			for len(arrived) > 0 && arrived[0].ask.arrivedBy < g.ask.sent {
				if arrived[0].token > high.token {
					high = arrived[0]
				}
				arrived = arrived[1:]
			}
			if g.token <= high.token {
				c.violate("%s was given to %s with token %d, asked for at %v, before %s with token %d, who had "+
					"asked by %v",
					p, g.owner, g.token, g.ask.sent, high.owner, high.token, high.ask.arrivedBy)
			}
		}
	}
}

// checkFences holds that the fence of a path never goes back, and is not below a
// token that the path was locked with.
func (c *checker) checkFences() {
	type told struct {
		at    time.Duration
		token int64
	}
	paths := make(map[string][]told)
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		if op.Kind == Acquire && op.Answered && op.Refused == wire.OK && op.Status == wire.StatusOK &&
			op.Mode == wire.ModeWrite && op.Permits == 0 {
			for _, p := range op.Paths {
				paths[p] = append(paths[p], told{op.Ended, op.Token})
			}
		}
	}
	looks := slices.Clone(c.h.Looks)
	for _, l := range looks {
		paths[l.Path] = append(paths[l.Path], told{l.To, l.Fence})
	}
	for _, list := range paths {
		slices.SortFunc(list, func(a, b told) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(list); i++ {
			list[i].token = max(list[i].token, list[i-1].token)
		}
	}
	for _, l := range looks {
		list := paths[l.Path]
		i, _ := slices.BinarySearchFunc(list, l.From,
			func(t told, at time.Duration) int { return cmp.Compare(t.at, at) })
		if i > 0 && !l.Partial && l.Fence < list[i-1].token {
			c.violate("%v: the fence of %s is %d, and was %d at %v", l.To, l.Path, l.Fence, list[i-1].token,
				list[i-1].at)
		}
	}
}

// checkExclusion holds that at no time two owners held conflicting locks that they
// were sure of.
func (c *checker) checkExclusion() {
	paths := make(map[string][]hold)
	for _, h := range c.holds {
		for _, p := range h.paths {
			paths[p] = append(paths[p], h)
		}
	}
	for _, p := range sortedKeys(paths) {
		all := paths[p]
		slices.SortFunc(all, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
		var now []hold
		for _, h := range all {
			now = slices.DeleteFunc(now, func(o hold) bool { return o.to <= h.from || o.owner == h.owner })
			for _, o := range now {
				if h.permits == 0 && (h.mode == wire.ModeWrite || o.mode == wire.ModeWrite) {
					c.violate("%v: %s is held by %s and %s at once", h.from, p, o.owner, h.owner)
				}
			}
			if now = append(now, h); h.permits > 0 && len(now) > int(h.permits) {
				c.violate("%v: %s has %d holders and %d permits", h.from, p, len(now), h.permits)
			}
		}
	}
}

// checkPolicies holds that a namespace has the policy that was set last.
func (c *checker) checkPolicies() {
	sets := make(map[string][]*Op)
	for i := range c.h.Ops {
		if op := &c.h.Ops[i]; op.Kind == SetPolicy && (!op.Answered || op.Refused == wire.OK) {
			sets[op.Namespace] = append(sets[op.Namespace], op)
		}
	}
	for _, l := range c.h.Looks {
		ops := sets[l.Namespace]
		if l.Partial || len(ops) == 0 {
			continue
		}
		slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Sent, b.Sent) })
		may := []wire.Algorithm{wire.RecursiveRW}
		for _, op := range ops {
			switch {
			case op.Sent > l.To:
			case op.Answered && op.Ended < l.From:
				may = append(may[:0], op.Algorithm)
			default:
				may = append(may, op.Algorithm)
			}
		}
		if !slices.Contains(may, l.Algorithm) {
			c.violate("%v: the policy of %s is %v, and may be %v", l.To, l.Namespace, l.Algorithm, may)
		}
	}
}

// checkCounter holds that each increment of the counter counted once, however
// often it had to be asked.
func (c *checker) checkCounter() {
	asked, high := int64(0), int64(0)
	for _, op := range c.h.Ops {
		if op.Kind == Increment && (!op.Answered || op.Refused == wire.OK) {
			asked, high = asked+1, max(high, op.Token)
		}
	}
	if high > asked {
		c.violate("the counter stands at %d after %d increments", high, asked)
	}
}
