package naive

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// jump is how far the tests raise a state above what it minted.
const jump = 1000

// rowsOf is all rows of a state that keeps every fence in memory.
func rowsOf(t *rapid.T, s *engine.State) disk {
	rows := make(disk)
	if err := s.View().Rows(0, rows.write); err != nil {
		t.Fatal(err)
	}
	return rows
}

// raised is a state as a restore makes it of rows: without the fences that nobody
// holds, above a base that it answers.
func raised(t *rapid.T, cfg engine.Config, rows disk) (r *replica, base int64) {
	r = newReplica(cfg)
	r.state = r.load(t, rows, false, r.owners)
	base = r.state.Highest() + jump
	r.state.Raise(base)
	again := r.load(t, rowsOf(t, r.state), true, nil)
	if again.View().Digest() != r.state.View().Digest() {
		t.Fatalf("a raised state is not what its rows make: %s", diffRows(again.View(), r.state.View()))
	}
	return r, base
}

// afterSteps checks groups of each algorithm that went through steps at random.
func afterSteps(t *testing.T, check func(t *rapid.T, cfg engine.Config, m *machine)) {
	for _, alg := range algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := engine.DefaultConfig()
				cfg.Algorithm = alg
				m := newMachine(t, cfg)
				for range rapid.IntRange(0, 60).Draw(t, "steps") {
					m.random(t)
				}
				check(t, cfg, m)
			})
		})
	}
}

// TestRaise: whatever a group went through, once it is raised no token up to the
// base counts for anything, and who holds and waits is as it was.
func TestRaise(t *testing.T) {
	afterSteps(t, func(t *rapid.T, cfg engine.Config, m *machine) {
		r, base := raised(t, cfg, rowsOf(t, m.plain.state))
		checkRaised(t, m.plain.state.View(), r.state.View(), base, m.plain.state.Counter())
		for _, ns := range spaces {
			for _, path := range paths[ns] {
				refusesOld(t, r, m.clock, ns, path, base)
			}
		}
	})
}

// TestEndStrays: whatever a group went through, once paths are in another namespace nothing of them is left in it, what
// others hold is left alone, and the state is sound and what its rows make.
func TestEndStrays(t *testing.T) {
	afterSteps(t, func(t *rapid.T, cfg engine.Config, m *machine) {
		r, _ := raised(t, cfg, rowsOf(t, m.plain.state))
		var all []string
		for _, ns := range spaces {
			all = append(all, paths[ns]...)
		}
		gone := rapid.SliceOfN(rapid.SampledFrom(all), 0, 3).Draw(t, "gone")
		stray := func(path string) bool { return slices.Contains(gone, path) }
		endsStrays(t, r, m.clock, stray)
	})
}

// endsStrays ends what is on paths for which stray is true.
func endsStrays(t *rapid.T, r *replica, c engine.Clock, stray func(path string) bool) {
	was := r.state.View()
	home := func(path string) string {
		for _, ns := range spaces {
			if slices.Contains(paths[ns], path) && !stray(path) {
				return ns
			}
		}
		return "elsewhere"
	}
	strays := slices.DeleteFunc(r.state.Strays(home), func(o engine.Stray) bool { return o.Waits })
	r.state.EndStrays(c, home)
	is := r.state.View()
	if left := r.state.Strays(home); len(left) > 0 || len(r.state.Freezing()) > 0 {
		t.Fatalf("there are %+v left, and %v is frozen", left, r.state.Freezing())
	}
	if err := r.state.Audit(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if again := r.load(t, rowsOf(t, r.state), true, nil); again.View().Digest() != is.Digest() {
		t.Fatalf("the state is not what its rows make: %s", diffRows(again.View(), is))
	}
	for _, owner := range owners {
		_, before := was.List(owner, nil)
		_, after := is.List(owner, nil)
		for _, l := range before {
			kept := slices.ContainsFunc(after, func(o wire.LockInfo) bool {
				return o.Path == l.Path &&
					o.Mode == l.Mode
			})
			ended := slices.ContainsFunc(strays, func(o engine.Stray) bool {
				return o.Owner == owner &&
					o.Path == l.Path
			})
			if kept == ended && l.ExpiresInMillis > 0 {
				t.Fatalf("%s held %+v: named as a stray %v, held still %v", owner, l, ended, kept)
			}
		}
	}
}

// checkRaised compares a state with what it was raised to.
// seenTokens are those up to base that somebody may have seen: the first, those around the
// counter, and the last. All others are too many to look at.
func seenTokens(counter, base int64) (tokens []int64) {
	const few = 200
	for _, r := range [][2]int64{{0, few}, {counter - few, counter + 2}, {base - 1, base}} {
		for t := max(r[0], 0); t <= min(r[1], base); t++ {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

func checkRaised(t *rapid.T, was, is *engine.View, base, counter int64) {
	type pair struct{ was, is int64 }
	var tokens []pair
	note := func(was, is int64) {
		if was == 0 != (is == 0) || is != 0 && is <= base {
			t.Fatalf("token %d became %d with base %d", was, is, base)
		}
		if was != 0 {
			tokens = append(tokens, pair{was, is})
		}
	}
	for _, owner := range owners {
		alive, before := was.List(owner, nil)
		still, after := is.List(owner, nil)
		if alive != still || len(before) != len(after) {
			t.Fatalf("%s held %v %+v and holds %v %+v", owner, alive, before, still, after)
		}
		for i := range before {
			note(before[i].Fence, after[i].Fence)
			before[i].Fence, after[i].Fence = 0, 0
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%s held %+v and holds %+v", owner, before, after)
		}
	}
	for _, ns := range spaces {
		alg, _ := was.Policy(ns)
		for _, path := range paths[ns] {
			before, after := was.Describe(ns, path, wire.MaxDescribePage), is.Describe(ns, path, wire.MaxDescribePage)
			if after.Token < base || !after.Flag {
				t.Fatalf("the fence of %s is %d, below the base %d", path, after.Token, base)
			}
			b, a := before.List.Waiters, after.List.Waiters
			if len(a) != len(b) {
				t.Fatalf("%s had waiters %+v and has %+v", path, b, a)
			}
			for i := range b {
				switch own := b[i].Token == a[i].Token; { // a caller's own stays what it is
				case !own:
					note(b[i].Token, a[i].Token)
				case a[i].Token > base && a[i].Mode == wire.ModeWrite && alg != wire.Semaphore:
					t.Fatalf("%s waits to write %s with the old token %d, above the base %d", a[i].Owner, path,
						a[i].Token, base)
				}
				b[i].Token, a[i].Token = 0, 0
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s had waiters %+v and has %+v", path, b, a)
			}
			for _, owner := range owners {
				for _, token := range seenTokens(counter, base) {
					if is.Assert(owner, ns, path, token).Status == wire.StatusOK {
						t.Fatalf("%s asserts the old token %d on %s", owner, token, path)
					}
				}
			}
		}
	}
	slices.SortFunc(tokens, func(a, b pair) int { return int(a.was - b.was) })
	for i := 1; i < len(tokens); i++ {
		if a, b := tokens[i-1], tokens[i]; a.was == b.was != (a.is == b.is) || a.is > b.is {
			t.Fatalf("tokens %d and %d became %d and %d", a.was, b.was, a.is, b.is)
		}
	}
}

// refusesOld asks for a path with tokens of the old cluster.
func refusesOld(t *rapid.T, r *replica, c engine.Clock, ns, path string, base int64) {
	v := r.state.View()
	if alg, _ := v.Policy(ns); alg == wire.Semaphore {
		return
	}
	for _, token := range []int64{1, base - jump, base - 1} {
		if token <= 0 {
			continue
		}
		res := r.apply(c, newAsk(&wire.Request{
			Op: wire.OpAcquire, Owner: "stale", TTLMillis: 1000, Token: token, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: path}},
		}, ns))
		if res.Code == wire.OK && (res.Reason != wire.ReasonStaleFencingToken || res.Current < base) {
			t.Fatalf("the old token %d on %s is answered %s", token, path, (*resultText)(&res))
		}
	}
}

// TestRaiseGoesOn: a raised group goes on as the one it was made of would have, but
// for the tokens, which are all above the base and never fall.
func TestRaiseGoesOn(t *testing.T) {
	for _, alg := range algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := engine.DefaultConfig()
				cfg.Algorithm = alg
				m := newMachine(t, cfg)
				for range rapid.IntRange(0, 40).Draw(t, "steps before") {
					m.step(t, m.drawTime(t), m.ownless(t))
				}
				rows := rowsOf(t, m.plain.state)
				old := newReplica(cfg)
				old.state = old.load(t, rows, true, old.owners)
				fresh, base := raised(t, cfg, rows)
				fences := make(map[string]int64)
				for range rapid.IntRange(1, 40).Draw(t, "steps after") {
					ms, cmd := m.drawTime(t), m.ownless(t)
					m.step(t, ms, cmd)
					compareRaised(t, m.clock, old, fresh, cmd, base)
					for _, ns := range spaces {
						for _, path := range paths[ns] {
							token := fresh.state.View().Inspect(ns, path).Token
							if token < max(base, fences[path]) {
								t.Fatalf("the fence of %s is %d and was %d, above the base %d", path, token,
									fences[path], base)
							}
							fences[path] = token
						}
					}
				}
			})
		})
	}
}

// ownless draws a step without a caller's own token and without a key: those of the
// old cluster mean nothing after a restore, which TestRaise checks.
func (m *machine) ownless(t *rapid.T) *ask {
	cmd := rapid.SampledFrom(moves).Draw(t, "move")(m, t)
	if cmd == nil || cmd.again || cmd.Req.Op == wire.OpOpen || cmd.Req.Op == wire.OpFreeze {
		return nil
	}
	req := *cmd.Req
	req.Token, req.Key = 0, ""
	own := *cmd
	own.Req = &req
	return &own
}

// compareRaised lets both states take a step.
func compareRaised(t *rapid.T, c engine.Clock, old, fresh *replica, cmd *ask, base int64) {
	tokenless := func(r *replica, res *wire.Result) (tokens []int64) {
		tokens = append(tokens, res.Token)
		res.Token = 0
		for i := range r.out.Events {
			tokens = append(tokens, r.out.Events[i].Token)
			r.out.Events[i].Token = 0
		}
		for i := range r.out.Answers {
			tokens = append(tokens, r.out.Answers[i].Result.Token)
			r.out.Answers[i].Result.Token = 0
		}
		return tokens
	}
	var results [2]wire.Result
	var tokens [2][]int64
	for i, r := range []*replica{old, fresh} {
		r.out.Reset()
		r.expire(c)
		if cmd != nil {
			results[i] = r.apply(c, cmd)
		}
		tokens[i] = tokenless(r, &results[i])
	}
	if !reflect.DeepEqual(results[0], results[1]) || !reflect.DeepEqual(old.out, fresh.out) {
		t.Fatalf("answers %s%s\nand once raised %s%s", (*resultText)(&results[0]), (*outputText)(&old.out),
			(*resultText)(&results[1]), (*outputText)(&fresh.out))
	}
	for i, token := range tokens[1] {
		if was := tokens[0][i]; was == 0 != (token == 0) || token != 0 && token <= base {
			t.Fatalf("token %d of the old state is %d in the raised one, with base %d", was, token, base)
		}
	}
}

// TestRaiseKeepsOutdated: a queued token that was overtaken before the backup is not
// granted after it either.
func TestRaiseKeepsOutdated(t *testing.T) {
	c, ns := engine.Clock{Now: 1}, "h:/a"
	r := newReplica(engine.DefaultConfig())
	ask := func(owner, path string) wire.Result {
		return r.apply(c, newAsk(&wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 1000,
			Locks: []wire.LockRequest{{Path: path}}}, ns))
	}
	ask("p", "h:/a/b")
	ask("q", "h:/a/b/c")           // waits below what p covers
	last := ask("p", "h:/a/b/c/d") // p may, as it covers it
	if last.Status != wire.StatusOK {
		t.Fatal((*resultText)(&last))
	}
	base := r.state.Counter()
	r.state.Raise(base)
	high := r.state.View().Inspect(ns, "h:/a/b/c/d").Token
	r.out.Reset()
	r.apply(c, newAsk(&wire.Request{Op: wire.OpReleaseAll, Owner: "p"}, ""))
	if got := grants(r.out.Events); len(got) != 1 || got[0] <= high {
		t.Fatalf("granted with %v, below what was held with %d", got, high)
	}
}

// TestRaiseOverQueuedTokens: the base is above the tokens of their own with which writes wait, and these are refused
// as their turn comes. Those of reads count for nothing, however high they are.
func TestRaiseOverQueuedTokens(t *testing.T) {
	const own = 5000
	c, ns, path := engine.Clock{Now: 1}, "h:/a", "h:/a/b"
	r := newReplica(engine.DefaultConfig())
	ask := func(owner string, mode wire.Mode, token int64) wire.Result {
		return r.apply(c, newAsk(&wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 1000, Token: token,
			Locks: []wire.LockRequest{{Path: path, Mode: mode}}}, ns))
	}
	ask("holder", wire.ModeWrite, 0)
	for _, res := range []wire.Result{ask("writer", wire.ModeWrite, own), ask("reader", wire.ModeRead, 2*own)} {
		if res.Status != wire.StatusQueued {
			t.Fatalf("answered %s", (*resultText)(&res))
		}
	}
	if got := r.state.Highest(); got != own {
		t.Fatalf("the highest token is %d, want %d, with which the writer waits", got, own)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a base below a token that waits is taken")
			}
		}()
		r.state.Raise(own - 1)
	}()
	r.state.Raise(own)
	r.out.Reset()
	r.apply(c, newAsk(&wire.Request{Op: wire.OpReleaseAll, Owner: "holder"}, ""))
	for i := range r.out.Events {
		if e := &r.out.Events[i]; e.Kind == wire.EventGrant && e.Owner == "writer" {
			t.Errorf("the writer is granted its old token %d", e.Token)
		}
	}
	r.apply(c, newAsk(&wire.Request{Op: wire.OpReleaseAll, Owner: "reader"}, ""))
	if res := ask("next", wire.ModeWrite, 0); res.Status != wire.StatusOK || res.Token <= own {
		t.Errorf("who comes next is answered %s, want a token above %d", (*resultText)(&res), own)
	}
}

// TestChanges: each step of a policy change shows in the number of changes, and
// nothing else does.
func TestChanges(t *testing.T) {
	s := engine.NewSystem()
	var done []engine.Done
	was := s.Changes()
	step := func(what string, by uint64, req *wire.Request) {
		t.Helper()
		if res := s.Apply(engine.Clock{Now: 1}, &engine.Command{Req: req}, &done); res.Code != wire.OK {
			t.Fatalf("%s: %s", what, res.Message)
		}
		if now := s.Changes(); now != was+by {
			t.Errorf("%s: %d changes became %d", what, was, now)
		}
		was = s.Changes()
	}
	step("a token", 0, &wire.Request{Op: wire.OpIncrToken})
	step("a change is asked for", 1, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.PointRW})
	step("another", 1, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/b", Algorithm: wire.PointRW, Key: "k"})
	step("the first is decided", 1, &wire.Request{Op: wire.OpRouteCommit, Target: 1})
	step("and again", 0, &wire.Request{Op: wire.OpRouteCommit, Target: 1})
	step("the first is done", 1, &wire.Request{Op: wire.OpRouteFinish, Target: 1})
	if chosen, pending := s.Policies(); chosen != 1 || pending != 1 {
		t.Errorf("%d policies, %d under way", chosen, pending)
	}
	step("the second is refused, and the routes have another version", 2,
		&wire.Request{Op: wire.OpRouteFinish, Target: 2, Detail: "no"})
}

// TestRaiseSystem: the cluster-wide counter goes on above the base; what nodes were
// asked is forgotten, and a policy change under way is not.
func TestRaiseSystem(t *testing.T) {
	s := engine.NewSystem()
	var done []engine.Done
	apply := func(req *wire.Request) wire.Result {
		return s.Apply(engine.Clock{Now: 1}, &engine.Command{Req: req}, &done)
	}
	first := apply(&wire.Request{Op: wire.OpIncrToken, Key: "k"}).Token
	apply(&wire.Request{Op: wire.OpMarkNode, Node: "pathlockd-1", Drain: wire.DrainRemoved})
	apply(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.PointRW, Key: "p"})
	s.Raise(500)
	if len(s.Marks()) > 0 {
		t.Errorf("of nodes of the old cluster it says %v", s.Marks())
	}
	if again := apply(&wire.Request{Op: wire.OpIncrToken, Key: "k"}).Token; again != 501 || first != 1 {
		t.Errorf("the counter went from %d to %d, want 501", first, again)
	}
	if i := s.Ready(); len(i) == 0 || i[0].Root != "h:/a" {
		t.Errorf("under way is %+v", i)
	}
	done = nil
	apply(&wire.Request{Op: wire.OpRouteCommit, Target: 1})
	if apply(&wire.Request{Op: wire.OpRouteFinish, Target: 1}); len(done) != 1 || done[0].Result.Code != wire.OK {
		t.Errorf("it ended with %+v", done)
	}
}
