package check

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// shown is how many operations around the one that does not fit are told.
const shown = 12

// checkLinearizable holds each namespace against the model (promise 2, and with it much
// of 1, 3, 6 and 7).
func (c *checker) checkLinearizable(within time.Duration) {
	m := &model{c}
	pm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{new(state).seal()} },
		Step: func(s, in, _ any) []any {
			var next []any
			for _, n := range m.step(s.(*state), in.(*history.Op)) {
				next = append(next, n)
			}
			return next
		},
		Equal: func(a, b any) bool { return a.(*state).key == b.(*state).key },
		Hash: func(s any) uint64 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(s.(*state).key))
			return h.Sum64()
		},
	}
	full := pm.ToModel()
	until := time.Now().Add(within)
	for _, name := range sortedKeys(c.spaces) {
		var ops []porcupine.Operation
		for _, op := range c.spaces[name] {
			if !isStep(op) {
				continue
			}
			ops = append(ops, porcupine.Operation{ClientId: op.Client, Input: op, Call: int64(op.Call),
				Return: int64(op.Return)})
		}
		result, info := porcupine.CheckOperationsVerbose(full, ops, max(time.Until(until), time.Millisecond))
		switch result {
		case porcupine.Illegal:
			c.violate(2, "%s%s", explain(name, ops, &info), c.unseen(name))
		case porcupine.Unknown:
			c.Undecided = append(c.Undecided, name)
		case porcupine.Ok:
		}
	}
}

// isStep says that an operation is a step of the model. What was refused did nothing;
// an acquire of unknown outcome is seen by what others see of it, and so is a release.
func isStep(op *history.Op) bool {
	switch op.Outcome {
	case history.Answered:
		return !op.OKThenLost()
	case history.Unknown:
		return op.Kind == history.SetPolicy
	case history.Refused:
	}
	return false
}

// explain tells where a history stops making sense: the end of the longest beginning
// that does, and what should have come next.
func explain(name string, ops []porcupine.Operation, info *porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, l := range part {
			if len(l) > len(longest) {
				longest = l
			}
		}
	}
	in := make(map[*history.Op]bool)
	for _, op := range longest {
		in[op.Input.(*history.Op)] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: no order of its %d operations explains their answers; %d can be explained, the last of them",
		name, len(ops), len(longest))
	for _, op := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&b, "\n\t%s", Describe(op.Input.(*history.Op)))
	}
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	told := 0
	for _, op := range ops {
		if o := op.Input.(*history.Op); !in[o] && told < 3 {
			told++
			fmt.Fprintf(&b, "\n\tand then not %s", Describe(o))
		}
	}
	return b.String()
}

// unseen tells what a namespace was asked that is no step, and may have been carried out all the same.
func (c *checker) unseen(name string) string {
	var b strings.Builder
	for _, op := range c.spaces[name] {
		if !isStep(op) && op.Outcome != history.Refused {
			fmt.Fprintf(&b, "\n\tperhaps carried out: %s", Describe(op))
		}
	}
	return b.String()
}

// Describe is an operation in one line.
func Describe(op *history.Op) string {
	var b strings.Builder
	ret := "?"
	if op.Return != history.Forever {
		ret = fmt.Sprintf("%.4f", op.Return.Seconds())
	}
	fmt.Fprintf(&b, "%.4f-%s client %d node %d: %s %v", op.Call.Seconds(), ret, op.Client, op.Node, op.Owner, op.Kind)
	if op.Kind == history.Acquire || op.Kind == history.Look {
		fmt.Fprintf(&b, " %s %v", strings.Join(op.Paths, " "), op.Mode)
	}
	if op.Kind == history.SetPolicy {
		fmt.Fprintf(&b, " %v", op.Algorithm)
	}
	if op.TTL > 0 {
		fmt.Fprintf(&b, " ttl %v", op.TTL)
	}
	if op.Asked != 0 {
		fmt.Fprintf(&b, " token %d", op.Asked)
	}
	fmt.Fprintf(&b, ": %v", op.Outcome)
	if op.Outcome != history.Answered {
		fmt.Fprintf(&b, " %v", op.Code)
		return b.String()
	}
	switch op.Kind {
	case history.Acquire:
		fmt.Fprintf(&b, " %v", op.Status)
		if op.Blocker != "" {
			fmt.Fprintf(&b, " by %s at %s (%v)", op.Blocker, op.At, op.Reason)
		}
		fmt.Fprintf(&b, " token %d", op.Token)
	case history.Renew, history.Assert:
		fmt.Fprintf(&b, " ok=%v %v", op.OK(), op.Reason)
	case history.Look:
		fmt.Fprintf(&b, " held %v, waited for %v, fence %d", op.Holders, op.Waiters, op.Token)
	case history.Release, history.Clear, history.SetPolicy, history.Restored:
	}
	return b.String()
}
