// Package check judges a history: it says which promises were broken (design.md
// section 2; docs/testing.md), and how one can see it. It knows nothing of how a
// cluster works, and of faults only when there were some: what they excuse is named
// where it is excused.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// What a checker forgives.
const (
	// rounding is what a lease may lose to milliseconds.
	rounding = 2 * time.Millisecond
	// early is how much earlier a lease may end for an entry that was in flight when
	// something failed (promise 5).
	early = 2 * time.Second
	// drift is how much faster or slower the laboratory's clocks run than they should.
	drift = 0.01
	// tick is how late a lease may be seen to end, and what the lease clock may lose
	// when a leader goes.
	tick = time.Second
	// noise is what a busy machine may add to that.
	noise = 1500 * time.Millisecond
)

// Violation is a promise that was broken.
type Violation struct {
	Promise int // 1 to 8
	Text    string
}

func (v Violation) String() string { return fmt.Sprintf("promise %d: %s", v.Promise, v.Text) }

// Result is what came of a check.
type Result struct {
	Violations []Violation
	// Undecided lists namespaces whose history was too hard to judge in time.
	Undecided []string
	// Unweighed lists kinds of request of which there are too few pairs to say what they cost.
	Unweighed []string
}

// checker holds what all checks share.
type checker struct {
	h      *history.History
	claims map[string]*claim
	spaces map[string][]*history.Op // by namespace, in order of call
	// policies is the changes of rules among them that may have been carried out.
	policies map[string][]*history.Op
	Result
}

// claim is what one owner ever asked for, in the first namespace that it asked in.
type claim struct {
	owner, namespace string
	history.Op       // its first acquire
	ops              []*history.Op
	clears           []*history.Op // whoever asked for them
	// cut is when something of unknown outcome was asked that ends or shortens its lease;
	// from then on nothing is sure.
	cut time.Duration
	// ghost is its first acquire of unknown outcome: from its call on the owner may hold
	// its paths, and wait for them.
	ghost *history.Op
}

// Check judges a history. Linearizability is looked at for so long at most.
func Check(h *history.History, within time.Duration) Result {
	whole := newChecker(h)
	whole.checkResource()
	whole.checkQueues()
	whole.checkEars()
	whole.checkDigests()
	whole.checkCosts()
	result, until := whole.Result, time.Now().Add(within)
	for _, l := range lives(h) {
		s, e := l.sure(), l.exact()
		for _, ns := range sortedKeys(whole.spaces) {
			sure, exact := newChecker(in(s, ns)), newChecker(in(e, ns))
			sure.checkAbove(&l)
			sure.checkOverlap()
			sure.checkTokens()
			sure.checkLeases()
			exact.checkLinearizable(time.Until(until))
			for _, r := range []*Result{&sure.Result, &exact.Result} {
				result.Violations = append(result.Violations, r.Violations...)
				result.Undecided = append(result.Undecided, r.Undecided...)
			}
		}
	}
	return result
}

// in is what happened in one namespace: what an owner does in another has nothing to do
// with it.
func in(h *history.History, namespace string) *history.History {
	one := &history.History{Faults: h.Faults}
	for i := range h.Ops {
		if h.Ops[i].Namespace == namespace {
			one.Ops = append(one.Ops, h.Ops[i])
		}
	}
	for i := range h.Accesses {
		if p := h.Accesses[i].Path; p == namespace || above(namespace, p) {
			one.Accesses = append(one.Accesses, h.Accesses[i])
		}
	}
	return one
}

func newChecker(h *history.History) *checker {
	c := &checker{h: h, claims: make(map[string]*claim), spaces: make(map[string][]*history.Op),
		policies: make(map[string][]*history.Op)}
	ops := make([]*history.Op, 0, len(h.Ops))
	for i := range h.Ops {
		ops = append(ops, &h.Ops[i])
	}
	slices.SortStableFunc(ops, func(a, b *history.Op) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range ops {
		c.spaces[op.Namespace] = append(c.spaces[op.Namespace], op)
		if op.Kind == history.SetPolicy && op.Outcome != history.Refused {
			c.policies[op.Namespace] = append(c.policies[op.Namespace], op)
		}
		if op.Kind == history.Acquire && c.claims[op.Owner] == nil {
			c.claims[op.Owner] = &claim{owner: op.Owner, namespace: op.Namespace, Op: *op, cut: history.Forever}
		}
	}
	for _, op := range ops {
		cl := c.claims[op.Owner]
		if cl == nil {
			continue
		}
		cl.ops = append(cl.ops, op)
		cl.note(op)
	}
	return c
}

// note takes an operation of the owner into account that may have been carried out
// without anybody's knowing.
func (cl *claim) note(op *history.Op) {
	unseen := op.Outcome == history.Unknown
	switch op.Kind {
	case history.Acquire:
		// One that was answered LOST was granted before, and then lost.
		if (unseen || op.OKThenLost()) && cl.ghost == nil {
			cl.ghost = op
		}
	case history.Release, history.Clear:
		if op.Kind == history.Clear {
			cl.clears = append(cl.clears, op)
		}
		if unseen {
			cl.cut = min(cl.cut, op.Call)
		}
	case history.Renew:
		if unseen {
			cl.cut = min(cl.cut, op.Call+op.TTL)
		}
	case history.Assert, history.Look, history.SetPolicy, history.Restored:
	}
}

func (c *checker) violate(promise int, format string, args ...any) {
	c.Violations = append(c.Violations, Violation{promise, fmt.Sprintf(format, args...)})
}

// sure is until when a lease surely lasts, of a request that was sent at a time: the
// server cannot have begun to count before.
func (c *checker) sure(call, ttl time.Duration) time.Duration {
	end := call + ttl - rounding - time.Duration(drift*float64(ttl))
	for i := range c.h.Faults {
		if f := &c.h.Faults[i]; f.From < end && f.To > call {
			return end - early
		}
	}
	return end
}

// over is when a lease surely is over, of a request that was answered at a time. The
// clock may stand still while something is broken, and go on from the last entry.
func (c *checker) over(ret, ttl time.Duration) time.Duration {
	if ret == history.Forever {
		return history.Forever
	}
	end := ret + ttl + time.Duration(drift*float64(ttl)) + tick + noise
	for i := range c.h.Faults {
		if f := &c.h.Faults[i]; !f.Serving && f.To > ret && f.From < end {
			end += f.To - max(f.From, ret) + tick
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
