package check

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// at is seconds of a run.
func at(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

type op = history.Op
type alter func(*op)

// make1 is an operation of an owner on n:/x/p that is asked at a time and answered ten
// milliseconds later, with a lease of an hour.
func make1(kind history.Kind, owner string, t float64, with []alter) op {
	o := op{
		Kind: kind, Owner: owner, Namespace: "n:/x", Paths: []string{"n:/x/p"}, TTL: time.Hour, QueueTTL: time.Hour,
		Call: at(t), Return: at(t + 0.01), Outcome: history.Answered,
	}
	for _, w := range with {
		w(&o)
	}
	return o
}

func got(owner string, t float64, token int64, with ...alter) op {
	return make1(history.Acquire, owner, t, append([]alter{func(o *op) { o.Token = token }}, with...))
}

func queued(owner string, t float64, token int64, by string, with ...alter) op {
	return make1(history.Acquire, owner, t, append([]alter{func(o *op) {
		o.Status, o.Token, o.Blocker, o.At, o.Reason = wire.StatusQueued, token, by, "n:/x/p", wire.ReasonWriteLocked
	}}, with...))
}

// inY moves an operation to another namespace.
func inY(o *op) { o.Namespace, o.Paths = "n:/y", []string{"n:/y/p"} }

func denied(owner string, t float64, by string, with ...alter) op {
	return queued(owner, t, 0, by, append([]alter{func(o *op) { o.Status, o.NoQueue = wire.StatusConflict, true }},
		with...)...)
}

func let(owner string, t float64, with ...alter) op { return make1(history.Release, owner, t, with) }
func clear1(owner string, t float64, with ...alter) op {
	return make1(history.Clear, owner, t, with)
}
func renewed(owner string, t float64, with ...alter) op {
	return make1(history.Renew, owner, t, with)
}
func asserted(owner string, t float64, token int64, with ...alter) op {
	return make1(history.Assert, owner, t, append([]alter{func(o *op) { o.Asked = token }}, with...))
}

// seen is a look that shows an owner, "" for nobody, and who waits.
func seen(owner string, t float64, token int64, waiters ...string) op {
	o := make1(history.Look, "", t, nil)
	o.TTL, o.QueueTTL, o.Token, o.Waiters = 0, 0, token, waiters
	if owner != "" {
		o.Holders = []history.Holder{{Owner: owner, Token: token}}
	}
	return o
}

func rules(t float64, alg wire.Algorithm, with ...alter) op {
	o := make1(history.SetPolicy, "", t, with)
	o.Paths, o.Algorithm = nil, alg
	return o
}

func ttl(d float64) alter      { return func(o *op) { o.TTL = at(d) } }
func queueTTL(d float64) alter { return func(o *op) { o.QueueTTL = at(d) } }
func until(t float64) alter    { return func(o *op) { o.Return = at(t) } }
func on(paths ...string) alter { return func(o *op) { o.Paths = paths } }
func blockedAt(path string, r wire.Reason) alter {
	return func(o *op) { o.At, o.Reason = path, r }
}
func permits(n uint32) alter { return func(o *op) { o.Permits = n } }
func placed(t float64) alter {
	return func(o *op) { o.Open, o.Placed = true, at(t) }
}
func reading(o *op) { o.Mode = wire.ModeRead }
func lost(o *op)    { o.Status = wire.RenewLost }
func lostAcquire(o *op) {
	o.Status = wire.StatusLost
}
func behind(o *op)  { o.Reason = wire.ReasonQueued }
func refused(o *op) { o.Outcome, o.Code = history.Refused, wire.Unavailable }
func unknown(o *op) {
	o.Outcome, o.Return, o.Token = history.Unknown, history.Forever, 0
}

// none says that a history keeps all promises.
const none = 0

// cases are histories, and a promise that each breaks.
var cases = []struct {
	name   string
	breaks int
	ops    []op
	faults []history.Fault
	change func(*history.History)
}{
	{name: "one after the other", ops: []op{got("a", 1, 1), asserted("a", 2, 1), let("a", 3), got("b", 4, 2),
		seen("b", 5, 2)}},
	{name: "readers share", ops: []op{got("a", 1, 0, reading), got("b", 2, 0, reading), let("a", 3), let("b", 4),
		got("c", 5, 1)}},
	{name: "two at once", breaks: 1, ops: []op{got("a", 1, 1), got("b", 2, 2)}},
	{name: "a reader and a writer", breaks: 1, ops: []op{got("a", 1, 0, reading), got("b", 2, 2)}},
	{name: "above and below", breaks: 1, ops: []op{got("a", 1, 1), got("b", 2, 2, on("n:/x/p/q"))}},
	{name: "below and above", breaks: 1, ops: []op{got("a", 1, 1, on("n:/x/p/q")), got("b", 2, 2)}},
	{name: "beside each other", ops: []op{got("a", 1, 1), got("b", 2, 2, on("n:/x/pq"))}},
	{name: "one permit too many", breaks: 1, ops: []op{rules(0, wire.Semaphore), got("a", 1, 0, permits(2)),
		got("b", 2, 0, permits(2)), got("c", 3, 0, permits(2))}},
	{name: "two permits", ops: []op{rules(0, wire.Semaphore), got("a", 1, 0, permits(2)), got("b", 2, 0, permits(2)),
		let("a", 3, permits(2)), got("c", 4, 0, permits(2))}},
	{name: "holds without asking", breaks: 1, ops: []op{got("a", 1, 1), seen("z", 2, 1)}},

	{name: "release that is seen late", breaks: 2, ops: []op{got("a", 1, 1), let("a", 2), denied("b", 3, "a")}},
	{name: "release under way", ops: []op{got("a", 1, 1), let("a", 2, until(4)), denied("b", 3, "a"),
		got("b", 3.5, 2)}},
	{name: "stale read", breaks: 2, ops: []op{got("a", 1, 1), let("a", 2), got("b", 3, 2), seen("a", 4, 1)}},
	{name: "stale assertion", breaks: 2, ops: []op{got("a", 1, 1, ttl(2)), got("b", 4, 2, ttl(5)),
		asserted("a", 5, 1)}},
	{name: "unknown acquire that happened", ops: []op{got("a", 1, 1, unknown), denied("b", 2, "a"), clear1("a", 3),
		got("b", 4, 2)}},
	{name: "unknown acquire that did not", ops: []op{got("a", 1, 1, unknown), got("b", 4, 2)}},
	{name: "unknown release that happened late", ops: []op{got("a", 1, 1), let("a", 2, unknown), denied("b", 3, "a"),
		got("b", 9, 2)}},
	{name: "refused acquire that happened", breaks: 2, ops: []op{got("a", 1, 1, refused), denied("b", 2, "a")}},
	{name: "blamed before it asked", breaks: 2, ops: []op{denied("b", 2, "a"), got("a", 3, 1)}},
	{name: "new rules clear", ops: []op{got("a", 1, 1), rules(2, wire.PointRW), got("b", 3, 2)}},
	{name: "the same rules clear nothing", breaks: 2, ops: []op{got("a", 1, 1), rules(2, wire.RecursiveRW),
		got("b", 3, 2)}},
	{name: "rules that are perhaps new", ops: []op{got("a", 1, 1), rules(2, wire.PointRW, unknown), got("b", 3, 2)}},
	{name: "point rules", ops: []op{rules(0, wire.PointRW), got("a", 1, 1), got("b", 2, 2, on("n:/x/p/q"))}},
	{name: "granted, repeated, gone", ops: []op{got("a", 1, 1, ttl(1), until(4), lostAcquire), got("b", 5, 2)}},

	{name: "token that does not grow", breaks: 3, ops: []op{got("a", 1, 5), let("a", 2), got("b", 3, 5)}},
	{name: "token of another path", breaks: 3, ops: []op{got("a", 1, 5), got("b", 3, 4, on("n:/x/q"))}},
	{name: "taken anew, which nobody was told", ops: []op{got("a", 1, 1, ttl(0.4)), got("a", 2, 0, unknown),
		seen("a", 3, 2)}},
	{name: "taken anew and lost", ops: []op{got("a", 1, 1, ttl(0.4)), got("a", 2, 0, lostAcquire, ttl(0.4), until(4)),
		seen("a", 3, 2)}},
	{name: "another token in a lease", breaks: 2, ops: []op{got("a", 1, 1), got("a", 2, 0, unknown), seen("a", 3, 2)}},
	{name: "another token, not asked for", breaks: 2, ops: []op{got("a", 1, 1, ttl(0.4)), seen("a", 1.8, 2)}},
	{name: "another token, asked for later", breaks: 2, ops: []op{got("a", 1, 1, ttl(0.4)), seen("a", 1.8, 2),
		got("a", 2, 0, unknown)}},
	{name: "token below a fence", breaks: 3, ops: []op{got("a", 1, 1, unknown), seen("", 2, 7), got("b", 3, 6)}},
	{name: "fence that goes back", breaks: 2, ops: []op{got("a", 1, 5), let("a", 2), seen("", 3, 4)}},
	{name: "token promised before", ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), got("c", 3, 3, on("n:/x/q")),
		let("a", 4), got("b", 5, 2)}},
	{name: "token that changes in the hand", breaks: 2, ops: []op{got("a", 1, 1), got("a", 2, 2)}},

	{name: "lost update", breaks: 4, ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Accesses = []history.Access{
			{Path: "p", Owner: "a", Token: 1, Time: at(1), Accepted: true},
			{Path: "p", Owner: "b", Token: 1, Time: at(1.1), Accepted: true},
			{Path: "p", Owner: "a", Token: 1, Time: at(1.2), Write: true, Accepted: true, Version: 1},
			{Path: "p", Owner: "b", Token: 1, Time: at(1.3), Write: true, Accepted: true, Version: 2},
		}
	}},
	{name: "superseded write", breaks: 4, ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Accesses = []history.Access{
			{Path: "p", Owner: "b", Token: 2, Time: at(1), Accepted: true},
			{Path: "p", Owner: "a", Token: 1, Time: at(1.2), Write: true, Accepted: true, Version: 1},
		}
	}},
	{name: "rightful holder turned away", breaks: 4, ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Accesses = []history.Access{{Path: "n:/x/p", Owner: "a", Token: 1, Time: at(2), Seen: 3}}
	}},
	{name: "reads and writes", ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Accesses = []history.Access{
			{Path: "p", Owner: "a", Token: 1, Time: at(2), Accepted: true},
			{Path: "p", Owner: "a", Token: 1, Time: at(3), Write: true, Version: 1, Accepted: true},
			{Path: "p", Owner: "z", Token: 0, Time: at(4), Seen: 1},
		}
	}},

	{name: "owner in two namespaces", ops: []op{
		got("a", 1, 1), got("a", 2, 1, inY), renewed("a", 3, inY), let("a", 4, inY), asserted("a", 5, 1),
		denied("b", 6, "a"), got("b", 7, 2, inY),
	}},
	{name: "lease that ends early beside another", breaks: 5, ops: []op{got("a", 1, 1), got("a", 2, 1, inY),
		let("a", 3), renewed("a", 4, inY, lost)}},
	{name: "lock that is held in the other namespace alone", breaks: 1,
		ops: []op{got("a", 1, 1), denied("b", 2, "a", inY)}},
	{name: "two owners in the second namespace", breaks: 1, ops: []op{got("a", 1, 1), got("a", 2, 1, inY),
		got("b", 3, 2, inY)}},

	{name: "lease that ends early", breaks: 5, ops: []op{got("a", 1, 1, ttl(5)), renewed("a", 3, ttl(5), lost)}},
	{name: "renewed lease that ends early", breaks: 5, ops: []op{got("a", 1, 1, ttl(3)), renewed("a", 3, ttl(3)),
		asserted("a", 5, 1, lost)}},
	{name: "holder that is told to wait", breaks: 5, ops: []op{got("a", 1, 1), queued("a", 2, 2, "b")}},
	{name: "others get it before its end", breaks: 1, ops: []op{got("a", 1, 1, ttl(5)), got("b", 5.9, 2)}},
	{name: "others get it at its end", ops: []op{got("a", 1, 1, ttl(5)), got("b", 6, 2)}},
	{name: "early for what was in flight", faults: []history.Fault{{From: at(3), To: at(4)}},
		ops: []op{got("a", 1, 1, ttl(5)), got("b", 4.5, 2)}},
	{name: "too early for that", breaks: 1, faults: []history.Fault{{From: at(3), To: at(4)}},
		ops: []op{got("a", 1, 1, ttl(5)), got("b", 3.5, 2)}},
	{name: "lease that outlives its time", breaks: 5, ops: []op{got("a", 1, 1, ttl(1)), denied("b", 6, "a")}},
	{name: "lease that comes back", breaks: 5, ops: []op{got("a", 1, 1, ttl(1)), renewed("a", 6)}},
	{name: "lease that stood still", faults: []history.Fault{{From: at(1.5), To: at(5)}},
		ops: []op{got("a", 1, 1, ttl(1)), denied("b", 6, "a")}},
	{name: "clock steps do not excuse", breaks: 5, faults: []history.Fault{{From: at(1.5), To: at(5), Serving: true}},
		ops: []op{got("a", 1, 1, ttl(1)), denied("b", 6, "a")}},
	{name: "place that was granted in time", ops: []op{got("a", 1, 1, ttl(3)), queued("b", 2, 2, "a", ttl(1)),
		denied("c", 4.5, "b")}},
	{name: "place that was granted after its time", breaks: 5,
		ops: []op{got("a", 1, 1, ttl(20)), queued("b", 2, 2, "a", ttl(1), queueTTL(1)), let("a", 9),
			denied("c", 10, "b")}},

	{name: "overtaken", breaks: 6, ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), let("a", 3), got("c", 3.5, 3)}},
	{name: "reader overtakes", breaks: 6, ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), let("a", 3),
		got("c", 3.5, 0, reading)}},
	{name: "in an open call, overtaken", breaks: 6, ops: []op{got("a", 1, 1), got("b", 2, 4, placed(2.1), until(9)),
		let("a", 3), got("c", 3.5, 3), let("c", 5)}},
	{name: "in an open call, granted and over before the answer came", ops: []op{
		got("a", 1, 1), got("b", 2, 2, placed(2.1), until(9), ttl(3)), let("a", 2.5), got("c", 6, 3, until(8.9)),
	}},
	{name: "after its place was over", ops: []op{got("a", 1, 1), queued("b", 2, 2, "a", queueTTL(1)), let("a", 3.1),
		got("c", 3.5, 3)}},
	{name: "lost its place", breaks: 6, ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), queued("b", 3, 4, "a")}},
	{name: "was cleared before it was told that it holds",
		ops: []op{got("a", 1, 1, until(1.5)), clear1("a", 1.2, until(1.4)), asserted("a", 2, 1, lost)}},
	{name: "was released before it was cleared", ops: []op{
		got("a", 1, 1), let("a", 2, until(2.5)), got("b", 2.1, 2, until(2.2)), clear1("a", 2.4, until(4)),
	}},
	{name: "was not released before it was cleared", breaks: 1, ops: []op{
		got("a", 1, 1), let("a", 2, until(2.5)), got("b", 1.8, 2, until(1.9)), clear1("a", 2.4, until(4)),
	}},
	{name: "was taken out", ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), clear1("b", 2.5),
		queued("b", 3, 4, "a")}},
	{name: "is being taken out", ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), clear1("b", 3.005, until(4)),
		queued("b", 3, 4, "a", until(3.5))}},
	{name: "not in the queue any more", breaks: 2, ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), seen("a", 3, 1)}},
	{name: "in the queue", ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"), queued("c", 2.5, 3, "b", behind),
		seen("a", 3, 1, "b", "c")}},
	{name: "behind who came later", breaks: 6, ops: []op{got("a", 1, 1), queued("b", 2, 2, "a"),
		queued("c", 2.5, 3, "a"), seen("a", 3, 1, "c", "b")}},
	{name: "in vain", breaks: 6, ops: []op{got("a", 1, 1)},
		change: func(h *history.History) { h.Stuck = []string{"b"} }},

	{name: "gone after it was acknowledged", breaks: 7, ops: []op{got("a", 1, 1), seen("", 3, 1)}},
	{name: "blamed from below", ops: []op{got("a", 1, 1, on("n:/x/p/q")),
		denied("b", 2, "a", blockedAt("n:/x/p/q", wire.ReasonDescendantWriteLocked))}},
	{name: "blamed where it is not", breaks: 2, ops: []op{got("a", 1, 1, on("n:/x/p/q")),
		denied("b", 2, "a", blockedAt("n:/x/p", wire.ReasonWriteLocked))}},

	{name: "replicas that differ", breaks: 1, ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Digests = []history.Digest{{Node: 0, Log: 2, Index: 7, Sum: 1}, {Node: 1, Log: 2, Index: 7, Sum: 2}}
	}},
	{name: "replicas at different places", ops: []op{got("a", 1, 1)}, change: func(h *history.History) {
		h.Digests = []history.Digest{{Node: 0, Log: 2, Index: 7, Sum: 1}, {Node: 1, Log: 2, Index: 8, Sum: 2},
			{Node: 1, Log: 3, Index: 7, Sum: 3}}
	}},
}

// TestCheck: what breaks a promise is found, and what breaks none is let pass.
func TestCheck(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := &history.History{Ops: c.ops, Faults: c.faults}
			if c.change != nil {
				c.change(h)
			}
			got := Check(h, time.Minute)
			if len(got.Undecided) > 0 {
				t.Errorf("undecided: %v", got.Undecided)
			}
			found := slices.ContainsFunc(got.Violations, func(v Violation) bool { return v.Promise == c.breaks })
			switch {
			case c.breaks == none && len(got.Violations) > 0:
				t.Errorf("found %v", got.Violations)
			case c.breaks != none && !found:
				t.Errorf("found %v, want one of promise %d", got.Violations, c.breaks)
			}
		})
	}
}

// TestModelAlone: what others find in a history of locks and tokens, the model finds too,
// but for what it is told to leave to them.
func TestModelAlone(t *testing.T) {
	left := map[int]bool{none: true, 4: true, 5: true, 6: true}
	for _, c := range cases {
		if left[c.breaks] || c.change != nil || c.name == "token of another path" {
			continue
		}
		found := 0
		for _, ns := range []string{"n:/x", "n:/y"} {
			k := newChecker(in(&history.History{Ops: c.ops, Faults: c.faults}, ns))
			k.checkLinearizable(time.Minute)
			found += len(k.Violations)
		}
		if found == 0 {
			t.Errorf("%s: the model lets it pass", c.name)
		}
	}
}

// TestLongHistory: thousands of operations of clients that contend are judged in seconds.
func TestLongHistory(t *testing.T) {
	var ops []op
	token := int64(0)
	for i := range 3000 {
		token++
		now := float64(i)
		owner := fmt.Sprintf("o%d", i)
		for j := range 4 {
			o := denied(fmt.Sprintf("w%d.%d", i, j), now+0.1, owner, until(now+0.3))
			ops = append(ops, o)
		}
		ops = append(ops, got(owner, now, token, until(now+0.09)), let(owner, now+0.4, until(now+0.9)))
		if i%50 == 0 {
			ops = append(ops, got(owner+"?", now, 0, unknown))
		}
	}
	began := time.Now()
	r := Check(&history.History{Ops: ops}, time.Minute)
	if len(r.Violations)+len(r.Undecided) > 0 {
		t.Fatal(r)
	}
	t.Logf("%d operations in %v", len(ops), time.Since(began))
}
