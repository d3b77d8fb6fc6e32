package groups

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

func setPolicy(ns string, alg wire.Algorithm) *wire.Request {
	return &wire.Request{Op: wire.OpSetPolicy, Namespace: ns, Algorithm: alg}
}

func deletePolicy(ns string) *wire.Request {
	return &wire.Request{Op: wire.OpDeletePolicy, Namespace: ns}
}

func (c *caller) policy(ns string) (wire.Algorithm, bool) {
	c.r.t.Helper()
	res := c.must(&wire.Request{Op: wire.OpGetPolicy, Namespace: ns})
	return res.Algorithm, res.Flag
}

// namespaceOf asks where a path is locked.
func (c *caller) namespaceOf(path string) string {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpDescribe, Path: path}).Namespace
}

// TestPolicies walks through contract.md section 4 as a client sees it.
func TestPolicies(t *testing.T) { onBoth(t, testPolicies) }

func testPolicies(t *testing.T, r *rig) {
	c := r.session()
	refused := func(req *wire.Request, code wire.Code) {
		t.Helper()
		if res := c.ask(req); res.Code != code {
			t.Fatalf("%v %s: %v %q, want %v", req.Op, req.Namespace, res.Code, res.Message, code)
		}
	}
	if alg, chosen := c.policy("h:/a"); alg != wire.RecursiveRW || chosen {
		t.Fatalf("without a row: %v %v", alg, chosen)
	}
	// An algorithm for a namespace that routing gives anyway clears its locks, if it
	// changes anything, and is not gated.
	c.must(write("a", "h:/a/x", time.Hour))
	c.must(setPolicy("h:/a", wire.RecursiveRW))
	if !c.alive("a") {
		t.Fatal("the same algorithm cleared a lock")
	}
	c.must(setPolicy("h:/a", wire.PointRW))
	if c.alive("a") {
		t.Fatal("another algorithm cleared nothing")
	}
	// A new root in the middle of a namespace moves paths: it waits for nobody.
	c.must(write("a", "h:/a/b/c", time.Hour))
	refused(setPolicy("h:/a/b", wire.PointRW), wire.FailedPrecondition)
	c.must(release("a", "h:/a/b/c"))
	before := c.must(write("a", "h:/a/other", time.Hour)).Token
	c.must(setPolicy("h:/a/b", wire.Semaphore))
	if ns := c.namespaceOf("h:/a/b/c"); ns != "h:/a/b" {
		t.Fatalf("h:/a/b/c is in %s", ns)
	}
	if ns := c.namespaceOf("h:/a/bc"); ns != "h:/a" {
		t.Fatalf("h:/a/bc is in %s", ns)
	}
	c.must(setPolicy("h:/a/b", wire.PointWrite))
	if after := c.must(write("b", "h:/a/b/c", time.Hour)).Token; after <= before {
		t.Fatalf("token %d in the new namespace, %d before", after, before)
	}
	refused(deletePolicy("h:/a/b"), wire.FailedPrecondition)
	c.must(release("b", "h:/a/b/c"))
	c.must(deletePolicy("h:/a/b"))
	c.must(deletePolicy("h:/a/b"))
	if ns := c.namespaceOf("h:/a/b/c"); ns != "h:/a" {
		t.Fatalf("after the delete h:/a/b/c is in %s", ns)
	}
	// The whole handler, and one path of it.
	if res := c.ask(write("a", "g:/", time.Hour)); res.Code != wire.InvalidArgument {
		t.Fatalf("a path with too few segments: %+v", res)
	}
	c.must(setPolicy("g", wire.RecursiveRW))
	c.must(write("a", "g:/", time.Hour))
	if res := c.ask(write("b", "g:/deep/down", time.Hour)); res.Reason != wire.ReasonAncestorLocked ||
		res.Path != "g:/" {
		t.Fatalf("below the handler's root: %+v", res)
	}
	refused(setPolicy("g:/deep", wire.PointRW), wire.FailedPrecondition)
	c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "b"})
	c.must(release("a", "g:/"))
	c.must(setPolicy("g:/deep", wire.PointRW))
	c.must(deletePolicy("g"))
	for path, want := range map[string]string{"g:/deep/down": "g:/deep", "g:/x/y": "g:/x", "h:/": "h:/"} {
		if ns := c.namespaceOf(path); ns != want {
			t.Errorf("%s is in %s, want %s", path, ns, want)
		}
	}
	refused(&wire.Request{
		Op: wire.OpAcquire, Owner: "a", TTLMillis: 1000,
		Locks: []wire.LockRequest{{Path: "g:/x/1"}, {Path: "g:/y/1"}},
	}, wire.InvalidArgument)
}

// TestRootOfAHandler: a namespace that is set on a bare handler holds all of it.
func TestRootOfAHandler(t *testing.T) { onBoth(t, testRootOfAHandler) }

func testRootOfAHandler(t *testing.T, r *rig) {
	c := r.session()
	c.must(setPolicy("pool:/", wire.Semaphore))
	for _, path := range []string{"pool:/db", "pool:/db/main", "pool:/x"} {
		if ns := c.namespaceOf(path); ns != "pool:/" {
			t.Errorf("%s is in %s", path, ns)
		}
	}
	permit := func(owner, path string) *wire.Request {
		req := write(owner, path, time.Hour)
		req.Locks[0].Permits = 2
		return req
	}
	for i, want := range []wire.Status{wire.StatusOK, wire.StatusOK, wire.StatusQueued} {
		if res := c.ask(permit(fmt.Sprint("o", i), "pool:/db")); res.Code != wire.OK || res.Status != want ||
			res.Namespace != "pool:/" {
			t.Errorf("holder %d of two: %+v", i+1, res)
		}
	}
	both := permit("b", "pool:/x")
	both.Locks = append(both.Locks, permit("b", "pool:/y").Locks...)
	if res := c.must(both); res.Namespace != "pool:/" {
		t.Errorf("across top segments: %+v", res)
	}
}

// TestMoveTellsWaiters says that who waits in a subtree that is moved is told.
func TestMoveTellsWaiters(t *testing.T) {
	r := newRig(t, nil)
	c, w := r.session(), r.session()
	killed := make(chan wire.EventKind, 4)
	if _, err := r.node.Subscribe(&wire.Subscription{Owner: "w",
		Sink: sinkFunc(func(k wire.EventKind) { killed <- k })}); err != nil {
		t.Fatal(err)
	}
	c.must(write("a", "h:/a/other", time.Hour))
	req := waiting(write("w", "h:/a/b/c", time.Hour))
	req.Locks = append(req.Locks, wire.LockRequest{Path: "h:/a/other"})
	o := w.start(r.next.Add(1), req)
	<-o.queued
	c.must(setPolicy("h:/a/b", wire.PointRW))
	if res := <-o.done; res.Code != wire.Aborted {
		t.Fatalf("the waiter was answered %+v", res)
	}
	if k := <-killed; k != wire.EventKilled {
		t.Fatalf("event %v", k)
	}
}

// TestPromise3TokensGrow moves a subtree back and forth between groups, restarts
// and cuts the power, while clients lock in it: the tokens of each path only grow,
// wherever it is routed, and so do those of a namespace over all its paths.
func TestPromise3TokensGrow(t *testing.T) {
	r := newRig(t, nil)
	var (
		mu    sync.Mutex
		last  = make(map[string]int64) // by path, and by namespace
		stop  = make(chan struct{})
		cut   sync.RWMutex
		done  sync.WaitGroup
		locks int
	)
	// One client at a time holds a lock of the tree, so that grants have an order.
	var turn sync.Mutex
	for w := range 4 {
		done.Add(1)
		go func() {
			defer done.Done()
			rng := rand.New(rand.NewPCG(3, uint64(w)))
			owner := fmt.Sprintf("w%d", w)
			for {
				select {
				case <-stop:
					return
				default:
				}
				path := []string{"h:/a", "h:/a/b", "h:/a/b/c", "h:/a/b/c/d", "h:/a/e"}[rng.IntN(5)]
				turn.Lock()
				cut.RLock()
				c := r.session()
				res := c.ask(write(owner, path, time.Hour))
				if res.Code == wire.OK && res.Status == wire.StatusOK {
					mu.Lock()
					for _, of := range []string{"path " + path, "namespace " + res.Namespace} {
						if res.Token <= last[of] {
							t.Errorf("%s got token %d for %s in %s: %s had %d before", owner, res.Token, path,
								res.Namespace, of, last[of])
						}
						last[of] = res.Token
					}
					locks++
					mu.Unlock()
				}
				c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: owner})
				cut.RUnlock()
				turn.Unlock()
			}
		}()
	}
	admin := r.session()
	for i := range 10 {
		want := i * 25
		eventually(t, "the clients get on", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return locks > want
		})
		ns := []string{"h:/a/b", "h", "h:/a/b/c"}[i%3]
		for _, req := range []*wire.Request{setPolicy(ns, wire.RecursiveRW), deletePolicy(ns)} {
			eventually(t, "the policy changes", func() bool { return admin.ask(req).Code == wire.OK })
			// Somebody locks where the subtree is now, before it moves on.
			mu.Lock()
			seen := locks
			mu.Unlock()
			eventually(t, "the clients lock there", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return locks > seen+5
			})
		}
		if i == 3 || i == 7 {
			cut.Lock()
			if i == 3 {
				r.restart()
			} else {
				r.powerLoss()
			}
			cut.Unlock()
		}
	}
	close(stop)
	done.Wait()
}

// TestMoveIsResumed cuts the power at random moments of routing changes: each is
// either done or not, the subtree is usable, and the next change works.
func TestMoveIsResumed(t *testing.T) {
	r := newRig(t, nil)
	rng := rand.New(rand.NewPCG(11, 1))
	for i := range 8 {
		c := r.session()
		req := setPolicy("h:/a/b", wire.PointRW)
		if i%2 == 1 {
			req = deletePolicy("h:/a/b")
		}
		o := c.start(r.next.Add(1), req)
		m := r.node.logs[rows.SystemLog].local.Load()
		from, steps := m.AppliedIndex(), uint64(rng.IntN(5))
		timeout := time.After(50 * time.Millisecond)
	wait:
		for m.AppliedIndex() < from+steps {
			select {
			case <-o.done:
				break wait
			case <-timeout:
				break wait
			default:
			}
		}
		r.powerLoss()
		c = r.session()
		eventually(t, "the change is carried on", func() bool {
			pending, _ := r.node.intents()
			return len(pending) == 0
		})
		ns := c.namespaceOf("h:/a/b/c")
		if _, chosen := c.policy("h:/a/b"); chosen != (ns == "h:/a/b") {
			t.Fatalf("round %d: h:/a/b chosen is %v, and h:/a/b/c is in %s", i, chosen, ns)
		}
		c.must(write("a", "h:/a/b/c", time.Hour))
		c.must(release("a", "h:/a/b/c"))
		c.must(req)
	}
}

// TestLateSteps: what a deposed leader still has under way of a policy change is refused
// when the change is over: else a freeze would stay, and nobody gets into the subtree any
// more, or a thaw would let somebody in while it is moved.
func TestLateSteps(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(setPolicy("h:/a/b", wire.PointRW))
	parent, root := r.node.groupOf("h:/a"), r.node.groupOf("h:/a/b")
	late := &change{attempt: 1}
	late.steps = steps{n: r.node, c: &wire.Call{}, since: r.node.clock.Mono()}
	for what, err := range map[string]error{
		"row":    late.one(root, &wire.Request{Op: wire.OpSetRow, Namespace: "h:/a/b"}),
		"freeze": late.one(parent, &wire.Request{Op: wire.OpFreeze, Namespace: "h:/a/b"}),
		"thaw":   late.one(parent, &wire.Request{Op: wire.OpThaw, Namespace: "h:/a/b"}),
		"open":   late.one(root, &wire.Request{Op: wire.OpOpen, Namespace: "h:/a/b", Target: 99}),
		"leave":  late.one(parent, &wire.Request{Op: wire.OpLeave, Namespace: "h:/a/b", Target: 99}),
		"begin":  late.begin(false),
		"commit": late.commit(),
		"finish": late.finish("no"),
	} {
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.Aborted {
			t.Errorf("a late %s is answered with %v, want %v", what, err, wire.Aborted)
		}
	}
	for _, path := range []string{"h:/a/b/c", "h:/a/d"} {
		c.must(write("a", path, time.Hour))
		c.must(release("a", path))
	}
	c.must(deletePolicy("h:/a/b"))
	c.must(write("a", "h:/a/b/c", time.Hour))
}

// TestAttemptsBegin: each attempt to carry a change out begins with an entry in the system
// log, before any of its steps: what is still under way of the one before can decide
// nothing between them.
func TestAttemptsBegin(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(setPolicy("h:/a", wire.PointRW))
	r.clock.freeze() // nothing ticks
	m := r.node.logs[rows.SystemLog].local.Load()
	before := m.AppliedIndex()
	c.must(setPolicy("h:/a", wire.RecursiveRW)) // moves nothing
	if entries := m.AppliedIndex() - before; entries != 3 {
		t.Errorf("the system log has %d entries of a change that moves nothing, want 3: intent, begin, finish", entries)
	}
}

// TestDecisionsOfAnotherLeader: an attempt ends when the system log took its step under
// another term than its own: this node may not have heard what came before it there.
func TestDecisionsOfAnotherLeader(t *testing.T) {
	r := newRig(t, nil)
	c := &change{attempt: (r.node.logs[rows.SystemLog].held.Load() + 1) << attemptBits}
	c.steps = steps{n: r.node, c: &wire.Call{}, since: r.node.clock.Mono()}
	for what, step := range map[string]func() error{"begin": func() error { return c.begin(true) },
		"finish": func() error { return c.finish("") }} {
		var e *wire.Error
		if err := step(); !errors.As(err, &e) || e.Code != wire.Aborted ||
			!strings.Contains(e.Message, "another leader") {
			t.Errorf("%s: the attempt goes on with %v", what, err)
		}
	}
}

// TestRefusedAfterAnOpen: a group that was opened for a change that is refused, as those of
// a restored cluster may be, is not left at a version of the routes that never comes, nor
// with the policy.
func TestRefusedAfterAnOpen(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	root := r.node.groupOf("h:/a/b")
	early := &change{attempt: 1}
	early.steps = steps{n: r.node, c: &wire.Call{}, since: r.node.clock.Mono()}
	err := early.one(root, &wire.Request{
		Op: wire.OpOpen, Namespace: "h:/a/b", Target: r.node.routes.Load().Version + 1, Algorithm: wire.PointRW,
		Explicit: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.must(write("a", "h:/a/b/c", time.Hour))
	if res := c.ask(setPolicy("h:/a/b", wire.PointRW)); res.Code != wire.FailedPrecondition {
		t.Fatalf("the change is answered %v %s", res.Code, res.Message)
	}
	other := ""
	for i := 0; other == ""; i++ {
		if ns := fmt.Sprintf("k:/%d", i); r.node.groupOf(ns) == root {
			other = ns
		}
	}
	c.must(write("b", other+"/x", time.Hour))
	if alg, chosen := c.policy("h:/a/b"); chosen {
		t.Errorf("the refused policy is there: %v", alg)
	}
}
