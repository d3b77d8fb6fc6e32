package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// mint is a token that was told for the first time: it was made between from and to.
type mint struct {
	owner    string
	from, to time.Duration
	token    int64
	seen     bool // as the fence of a path: nothing is known of when it was made
}

// checkTokens holds that what a namespace mints only grows: a token that was made after
// another was told is above that (promise 3).
func (c *checker) checkTokens() {
	for _, name := range sortedKeys(c.spaces) {
		var all []mint
		last := make(map[string]mint)
		for _, op := range c.spaces[name] {
			if op.Outcome != history.Answered || op.Token == 0 {
				continue
			}
			switch op.Kind {
			case history.Acquire:
				before, again := last[op.Owner]
				if again && before.token == op.Token {
					// It was not made anew, so another one is made later than this.
					before.from = op.Call
					last[op.Owner] = before
					continue
				}
				m := mint{owner: op.Owner, from: c.claims[op.Owner].Call, to: op.Return, token: op.Token}
				if again {
					m.from = before.from
				}
				all = append(all, m)
				m.from = op.Call
				last[op.Owner] = m
			case history.Look:
				all = append(all, mint{owner: "the fence of " + op.Paths[0], from: op.Call, to: op.Return,
					token: op.Token, seen: true})
			case history.Release, history.Clear, history.Renew, history.Assert, history.SetPolicy, history.Restored:
			}
		}
		c.growing(name, all)
	}
}

// checkAbove holds that what is minted after a restore is above all that was ever told of
// in the namespace, and so are its fences (promise 3). One of many is told of.
func (c *checker) checkAbove(l *life) {
	told := make(map[string]bool)
	for i := range c.h.Ops {
		op := &c.h.Ops[i]
		high := l.high[op.Namespace]
		if op.Era < l.era || op.Outcome != history.Answered || high == 0 || told[op.Namespace] {
			continue
		}
		told[op.Namespace] = true
		switch {
		case op.Kind == history.Acquire && op.Token != 0 && op.Token <= high:
			c.violate(3, "before the restore a token %d was told of in %s, and after it: %s", high, op.Namespace,
				Describe(op))
		case op.Kind == history.Look && op.Token < high:
			c.violate(3, "before the restore a token %d was told of in %s, and after it a fence is lower: %s", high,
				op.Namespace, Describe(op))
		default:
			told[op.Namespace] = false
		}
	}
}

// growing checks the tokens of one namespace.
func (c *checker) growing(namespace string, all []mint) {
	told := slices.Clone(all)
	slices.SortFunc(told, func(a, b mint) int { return cmp.Compare(a.to, b.to) })
	slices.SortStableFunc(all, func(a, b mint) int { return cmp.Compare(a.from, b.from) })
	var high mint
	minted := make(map[int64]mint)
	for _, m := range all {
		for len(told) > 0 && told[0].to < m.from {
			if told[0].token > high.token {
				high = told[0]
			}
			told = told[1:]
		}
		if m.seen {
			continue
		}
		if m.token <= high.token {
			c.violate(3, "%s: %s is told token %d at %.3fs, made after %.3fs; at %.3fs %s was told %d",
				namespace, m.owner, m.token, m.to.Seconds(), m.from.Seconds(), high.to.Seconds(),
				high.owner, high.token)
		}
		if other, again := minted[m.token]; again && other.owner != m.owner {
			c.violate(3, "%s: %s is told token %d at %.3fs, as %s was at %.3fs", namespace, m.owner, m.token,
				m.to.Seconds(), other.owner, other.to.Seconds())
		}
		minted[m.token] = m
	}
}
