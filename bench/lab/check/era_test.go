package check

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// A backup is taken from 10 s to 11 s, the cluster abandoned at 15 s, and another one
// founded with the backup, which serves at 20.5 s: what was left of a lease then is left
// 9 s to 10.5 s later.
var (
	founding = history.Restore{SaveFrom: at(10), SaveTo: at(11), Abandoned: at(15), Began: at(20)}
	fault    = history.Fault{From: at(9.9), To: at(20.5)}
)

// later is operations that the new cluster is asked for.
func later(ops ...op) []op {
	for i := range ops {
		ops[i].Era = 1
	}
	return ops
}

var eraCases = []struct {
	name   string
	breaks int
	before []op
	after  []op
}{
	{name: "held in the backup", before: []op{got("a", 1, 1)}, after: later(renewed("a", 21), got("a", 22, 101),
		asserted("a", 23, 101), let("a", 24), got("b", 25, 102))},
	{name: "released after the backup", before: []op{got("a", 1, 1), let("a", 12), got("b", 13, 2)},
		after: later(denied("c", 21, "a"), renewed("b", 22, lost))},
	{name: "not held in the backup", before: []op{got("a", 12, 1)}, after: later(asserted("a", 21, 1, lost),
		got("b", 22, 101))},
	{name: "not held, and is", breaks: 2, before: []op{got("a", 12, 1)}, after: later(denied("b", 22, "a"))},
	{name: "never acquired, and is", breaks: 1, before: []op{got("a", 12, 1)}, after: later(renewed("a", 22))},
	{name: "held, and is not", breaks: 7, before: []op{got("a", 1, 1)}, after: later(seen("", 21, 100))},
	{name: "held, and others get it", breaks: 1, before: []op{got("a", 1, 1)}, after: later(got("b", 21, 101))},
	{name: "torn, in the backup", before: []op{got("a", 10.5, 1)}, after: later(denied("b", 21, "a"))},
	{name: "torn, not in the backup", before: []op{got("a", 10.5, 1)}, after: later(got("b", 21, 101))},
	{name: "released while the backup was taken", before: []op{got("a", 1, 1), let("a", 10.5)},
		after: later(got("b", 21, 101))},
	{name: "waits in an open call while the backup is taken",
		before: []op{got("a", 1, 1), got("b", 2, 2, placed(2.1), until(12)), let("a", 11.9)},
		after:  later(let("a", 21), denied("c", 22, "b"))},
	{name: "waits in an open call that is refused while the backup is taken",
		before: []op{got("a", 1, 1), got("b", 2, 2, placed(2.1), until(10.9), refused)},
		after:  later(let("a", 21), denied("c", 22, "b"))},
	{name: "torn in another order", breaks: 2, before: []op{got("a", 10.2, 1), got("b", 10.6, 2, on("n:/x/q"))},
		after: later(denied("c", 21, "b", on("n:/x/q"), blockedAt("n:/x/q", wire.ReasonWriteLocked)),
			seen("", 22, 100))},
	{name: "torn in order", before: []op{got("a", 10.2, 1), got("b", 10.6, 2, on("n:/x/q"))},
		after: later(denied("c", 21, "a"), got("d", 22, 101, on("n:/x/q")))},
	{name: "unknown before the backup", before: []op{got("a", 1, 1, unknown)}, after: later(denied("b", 21, "a"))},
	{name: "unknown after the backup", breaks: 2, before: []op{got("a", 12, 1, unknown)},
		after: later(denied("b", 21, "a"))},

	{name: "token that was used before the backup", breaks: 3, before: []op{got("a", 1, 1), let("a", 2)},
		after: later(got("b", 21, 1))},
	{name: "token that was used after the backup", breaks: 3, before: []op{got("a", 1, 1), let("a", 2),
		got("b", 12, 7)}, after: later(got("c", 21, 7))},
	{name: "token below one that was seen after the backup", breaks: 3,
		before: []op{got("a", 12, 1, unknown), seen("a", 13, 7)}, after: later(got("c", 21, 7))},
	{name: "fence that was forgotten", breaks: 3, before: []op{got("a", 12, 7)}, after: later(seen("", 21, 5))},
	{name: "old token is good", breaks: 2, before: []op{got("a", 1, 1)}, after: later(asserted("a", 21, 1))},
	{name: "old token is not", before: []op{got("a", 1, 1)}, after: later(asserted("a", 21, 1, lost),
		seen("a", 22, 101), asserted("a", 23, 101))},
	{name: "new token that changes", breaks: 2, before: []op{got("a", 1, 1)},
		after: later(got("a", 22, 101), got("a", 23, 102))},

	{name: "lease that goes on", before: []op{got("a", 9, 1, ttl(6))}, after: later(denied("b", 22, "a"))},
	{name: "lease that ends in time", before: []op{got("a", 9, 1, ttl(6))}, after: later(got("b", 22.5, 101))},
	{name: "lease that ends early", breaks: 1, before: []op{got("a", 9, 1, ttl(6))}, after: later(got("b", 21, 101))},
	{name: "lease that outlives its time", breaks: 5, before: []op{got("a", 9, 1, ttl(2))},
		after: later(denied("b", 40, "a"))},

	{name: "waiter that goes on", before: []op{got("a", 1, 1), queued("b", 2, 2, "a")},
		after: later(seen("a", 21, 101, "b"), queued("b", 22, 102, "a"), let("a", 23), got("b", 24, 102))},
	{name: "waiter that is lost", breaks: 2, before: []op{got("a", 1, 1), queued("b", 2, 2, "a")},
		after: later(seen("a", 21, 101))},
	{name: "waiter that is overtaken", breaks: 6, before: []op{got("a", 1, 1), queued("b", 2, 2, "a")},
		after: later(let("a", 21), got("c", 22, 103))},
	{name: "waiter that loses its place", breaks: 6, before: []op{got("a", 1, 1), queued("b", 2, 2, "a")},
		after: later(queued("b", 21, 102, "a"), queued("b", 22, 103, "a"))},
	{name: "rules of the backup", before: []op{rules(1, wire.PointRW), rules(12, wire.RecursiveRW)},
		after: later(got("a", 21, 101), got("b", 22, 102, on("n:/x/p/q")))},
	{name: "rules of after the backup", breaks: 2, before: []op{rules(12, wire.PointRW)},
		after: later(got("a", 21, 101), denied("b", 22, "a", on("n:/x/p/q")), got("b", 23, 102, on("n:/x/p/q")))},
}

// TestRestore: a cluster that was founded with a backup has what was acknowledged before
// it, and nothing of what was asked for after.
func TestRestore(t *testing.T) {
	for _, c := range eraCases {
		t.Run(c.name, func(t *testing.T) {
			h := &history.History{
				Ops: append(slices.Clone(c.before), c.after...), Faults: []history.Fault{fault},
				Restores: []history.Restore{founding},
			}
			found := Check(h, time.Minute)
			if len(found.Undecided) > 0 {
				t.Errorf("undecided: %v", found.Undecided)
			}
			as := slices.ContainsFunc(found.Violations, func(v Violation) bool { return v.Promise == c.breaks })
			switch {
			case c.breaks == none && len(found.Violations) > 0:
				t.Errorf("found %v", found.Violations)
			case c.breaks != none && !as:
				t.Errorf("found %v, want one of promise %d", found.Violations, c.breaks)
			}
		})
	}
}

// TestRestoreTwice: what a second cluster was asked before a backup of it is in the third,
// and what came of the first.
func TestRestoreTwice(t *testing.T) {
	era := func(n int, o op) op { o.Era = n; return o }
	h := &history.History{
		Ops: []op{
			got("a", 1, 1), got("z", 12, 2, on("n:/x/z")), era(1, got("b", 21, 101, on("n:/x/q"))),
			era(1, got("y", 33, 102, on("n:/x/y"))),
			era(2, denied("c", 41, "a")), era(2,
				denied("c", 42, "b", on("n:/x/q"), blockedAt("n:/x/q", wire.ReasonWriteLocked))),
			era(2, got("d", 43, 203, on("n:/x/z"))), era(2, got("e", 44, 204, on("n:/x/y"))),
		},
		Faults:   []history.Fault{fault, {From: at(29), To: at(40.5)}},
		Restores: []history.Restore{founding, {SaveFrom: at(30), SaveTo: at(31), Abandoned: at(35), Began: at(40)}},
	}
	if r := Check(h, time.Minute); len(r.Violations)+len(r.Undecided) > 0 {
		t.Errorf("found %v", r)
	}
	h.Ops[7].Token = 102 // it was told of after the second backup
	if r := Check(h, time.Minute); !slices.ContainsFunc(r.Violations,
		func(v Violation) bool { return v.Promise == 3 }) {
		t.Errorf("a token that is used again is not found: %v", r)
	}
}
