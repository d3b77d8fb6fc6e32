package pathlockd

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The operations one by one, with a real server.

// take acquires a path for an owner, without a Lock around it.
func take(t *testing.T, c *Client, owner string, locks ...wire.LockRequest) *wire.Result {
	t.Helper()
	res, err := c.Acquire(within(t, patience), &wire.Request{Owner: owner, TTLMillis: 60_000, Locks: locks})
	must(t, err)
	return res
}

func TestAcquireReleaseRenew(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p, q, a, b := path(t, "/a/b"), path(t, "/a/c"), t.Name()+"-a", t.Name()+"-b"
	if res := take(t, c, a, wire.LockRequest{Path: p},
		wire.LockRequest{Path: q, Mode: Read}); res.Status != wire.StatusOK || res.Namespace != path(t, "/a") {
		t.Fatalf("acquire: %+v", res)
	}
	res := take(t, c, b, wire.LockRequest{Path: p})
	if res.Status != wire.StatusQueued || res.Owner != a || res.Reason != wire.ReasonWriteLocked || res.Position != 1 {
		t.Fatalf("a second owner: %+v", res)
	}
	r, err := c.Renew(ctx, a, time.Minute, "", 0, path(t, "/a"))
	must(t, err)
	if r.Status != wire.StatusOK || r.Flag {
		t.Fatalf("renew: %+v", r)
	}
	if r, err = c.Renew(ctx, b, time.Minute, "", 0); err != nil || r.Status != wire.RenewLost ||
		r.Reason != wire.ReasonMissingAlive {
		t.Fatalf("renew of a waiter: %+v %v", r, err)
	}
	must(t, c.Release(ctx, a, []wire.ReleaseRequest{{Path: p}}, false, ""))
	if res = take(t, c, b, wire.LockRequest{Path: p}); res.Status != wire.StatusOK {
		t.Fatalf("asked again: %+v", res)
	}
	held := wire.LockRequest{Path: p, State: wire.StateHeld}
	if res = take(t, c, a, held); res.Status != wire.StatusLost || res.Reason != wire.ReasonMissingWrite {
		t.Fatalf("held no more: %+v", res)
	}
	must(t, c.ReleaseAll(ctx, a, true, "", path(t, "/a")))
	must(t, c.ReleaseAll(ctx, b, false, ""))
	for _, owner := range []string{a, b} {
		locks, alive, err := c.ListOwnerLocks(ctx, owner)
		if err != nil || alive || len(locks) != 0 {
			t.Fatalf("%s: %v %v %v", owner, locks, alive, err)
		}
	}
}

func TestInspectDescribeList(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	top, p, a, b := path(t, "/a"), path(t, "/a/b"), t.Name()+"-a", t.Name()+"-b"
	token := take(t, c, a, wire.LockRequest{Path: p}, wire.LockRequest{Path: p + "/c", Mode: Read}).Token
	take(t, c, b, wire.LockRequest{Path: p, Mode: Read})
	i, err := c.InspectPath(ctx, p)
	must(t, err)
	if i.WriteOwner != a || !i.HasFence || i.Fence != token || len(i.ReadOwners)+len(i.SemaphoreOwners) != 0 {
		t.Fatalf("inspect: %+v", i)
	}
	d, err := c.Describe(ctx, p, 0)
	must(t, err)
	if len(d.Holders) != 1 || d.Holders[0].Owner != a || d.WaitersTotal != 1 || d.Waiters[0].Owner != b ||
		d.ReadsBelow != 1 || d.WritesBelow != 0 || d.Namespace != top || d.Fence != token ||
		d.Algorithm != wire.RecursiveRW {
		t.Fatalf("describe: %+v", d)
	}
	if d, err = c.Describe(ctx, p+"/c/d", 0); err != nil || len(d.Covering) != 1 || d.Covering[0].Path != p {
		t.Fatalf("describe below: %+v %v", d, err)
	}
	locks, alive, err := c.ListOwnerLocks(ctx, a, top)
	must(t, err)
	if !alive || len(locks) != 2 || locks[0].Path != p || locks[1].Mode != Read {
		t.Fatalf("list: %v %+v", alive, locks)
	}
	many := make([]wire.LockRequest, wire.MaxDumpPage+1) // more than a page
	for n := range many {
		many[n].Path = path(t, "/a/x/"+string(rune('A'+n/26))+string(rune('a'+n%26)))
	}
	take(t, c, t.Name()+"-c", many...)
	scanned := 0
	for info, err := range c.ScanLocks(ctx, path(t, "/a/x")) {
		must(t, err)
		if info.Owner != t.Name()+"-c" {
			t.Fatalf("scan: %+v", info)
		}
		scanned++
	}
	dumped := 0
	for _, err := range c.DumpLocks(ctx) {
		must(t, err)
		if dumped++; dumped == 3 {
			break
		}
	}
	if scanned != len(many) || dumped != 3 {
		t.Fatalf("scanned %d, want %d; dumped %d, want 3", scanned, len(many), dumped)
	}
	for _, err := range c.ScanLocks(ctx, "no path") {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Fatalf("scan of nonsense: %v", err)
		}
	}
}

func TestForceReleaseRevokeAssert(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p, a := path(t, "/a/b"), t.Name()
	token := take(t, c, a, wire.LockRequest{Path: p}).Token
	for says, one := range map[wire.Reason]struct {
		owner string
		token int64
	}{
		wire.ReasonUnspecified:       {a, token},
		wire.ReasonStaleFencingToken: {a, token + 1},
		wire.ReasonStaleOwner:        {"nobody", token},
	} {
		res, err := c.AssertFencing(ctx, one.owner, one.token, p)
		if err != nil || res.Reason != says || (res.Status == wire.StatusOK) != (says == 0) {
			t.Fatalf("assert %+v: %+v %v", one, res, err)
		}
	}
	s, err := c.Subscribe(ctx, a)
	must(t, err)
	must(t, c.RequestRevoke(ctx, a))
	if e := <-s.Events(); e.Kind != wire.EventRevoke || e.Owner != a {
		t.Fatalf("event %+v, want REVOKE", e)
	}
	if res, err := c.Renew(ctx, a, time.Minute, "", 0); err != nil || !res.Flag {
		t.Fatalf("renew after a revoke: %+v %v", res, err)
	}
	must(t, c.ForceRelease(ctx, a, ""))
	if e := <-s.Events(); e.Kind != wire.EventKilled {
		t.Fatalf("event %+v, want KILLED", e)
	}
	if alive, err := c.IsOwnerAlive(ctx, a); err != nil || alive {
		t.Fatalf("alive after its end: %v", err)
	}
	s.Close()
}

func TestGrantIsAnEvent(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p, a, b := path(t, "/a/b"), t.Name()+"-a", t.Name()+"-b"
	take(t, c, a, wire.LockRequest{Path: p})
	s, err := c.Subscribe(ctx, b, wire.EventGrant)
	must(t, err)
	token := take(t, c, b, wire.LockRequest{Path: p}).Token
	must(t, c.ReleaseAll(ctx, a, false, ""))
	if e := <-s.Events(); e != (Event{Kind: wire.EventGrant, Owner: b, Path: p, Namespace: path(t, "/a"),
		Token: token}) {
		t.Fatalf("event %+v", e)
	}
}

func TestPolicies(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	ns := path(t, "/a")
	want := func(algorithm wire.Algorithm, explicit bool) {
		t.Helper()
		if a, e, err := c.GetNamespacePolicy(ctx, ns); err != nil || a != algorithm || e != explicit {
			t.Fatalf("policy %v %v %v, want %v %v", a, e, err, algorithm, explicit)
		}
	}
	want(wire.RecursiveRW, false)
	must(t, c.SetNamespacePolicy(ctx, ns, wire.PointWrite, ""))
	want(wire.PointWrite, true)
	must(t, c.DeleteNamespacePolicy(ctx, ns, ""))
	want(wire.RecursiveRW, false)
}

func TestWaitEdges(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p, q, a, b := path(t, "/a/p"), path(t, "/a/q"), t.Name()+"-a", t.Name()+"-b"
	take(t, c, a, wire.LockRequest{Path: p})
	take(t, c, b, wire.LockRequest{Path: q})
	must(t, c.SetWaitEdge(ctx, a, b, time.Minute, q, wire.ReasonWriteLocked, ""))
	if kind, _, err := c.DetectCycle(ctx, a, 10); err != nil || kind != wire.CycleNone {
		t.Fatalf("half a cycle: %v %v", kind, err)
	}
	must(t, c.SetWaitEdge(ctx, b, a, time.Minute, "", 0, ""))
	kind, chain, err := c.DetectCycle(ctx, a, 10)
	if err != nil || kind != wire.CycleFound || !slices.Contains(chain, a) || !slices.Contains(chain, b) {
		t.Fatalf("a cycle: %v %v %v", kind, chain, err)
	}
	if yes, err := c.IsBlocking(ctx, q, b, wire.ReasonWriteLocked); err != nil || !yes {
		t.Fatalf("is blocking: %v %v", yes, err)
	}
	must(t, c.Release(ctx, b, []wire.ReleaseRequest{{Path: q}}, true, ""))
	if yes, err := c.IsBlocking(ctx, q, b, wire.ReasonWriteLocked); err != nil || yes {
		t.Fatalf("is blocking after its release: %v %v", yes, err)
	}
	must(t, c.ClearWaitEdge(ctx, a, ""))
	if kind, _, err := c.DetectCycle(ctx, a, 10); err != nil || kind != wire.CycleNone {
		t.Fatalf("after clearing: %v %v", kind, err)
	}
}

func TestHealthTopologyPing(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	must(t, c.Ping(ctx))
	if ok, detail, err := c.Health(ctx); err != nil || !ok || detail == "" {
		t.Fatalf("health: %v %q %v", ok, detail, err)
	}
	top, err := c.Topology(ctx)
	if err != nil || top.GroupLogs != 16 || len(top.Leaders) == 0 || top.Self != c.Server() {
		t.Fatalf("topology: %+v %v", top, err)
	}
	ch, err := c.WatchTopology(ctx)
	must(t, err)
	if watched := <-ch; watched.GroupLogs != 16 {
		t.Fatalf("watched topology: %+v", watched)
	}
	// All that it takes to find who leads a path.
	if top.Segments != 1 || len(top.LogOf) != 16 || len(top.Nodes) != 1 || top.Nodes[0].Native != server(t) {
		t.Fatalf("topology: %+v", top)
	}
	for g, log := range top.LogOf {
		if log >= uint64(len(top.Leaders)) || top.Leaders[log] != c.Server() {
			t.Fatalf("group %d is in log %d of %v", g, log, top.Leaders)
		}
	}
}

// TestTopologyTellsOfNamespaces: a namespace that lies elsewhere than by default is
// told to who watches, and so is its end.
func TestTopologyTellsOfNamespaces(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	ch, err := c.WatchTopology(ctx)
	must(t, err)
	root := path(t, "/a/deep")
	seen := func(want bool) {
		t.Helper()
		for {
			select {
			case top := <-ch:
				if slices.Contains(top.Roots, root) == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("never told: %s is a root: %v", root, want)
			}
		}
	}
	seen(false)
	must(t, c.SetNamespacePolicy(ctx, root, wire.PointWrite, ""))
	seen(true)
	must(t, c.DeleteNamespacePolicy(ctx, root, ""))
	seen(false)
}

func TestIdempotencyKey(t *testing.T) {
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	one, err := a.IncrFencingToken(ctx, t.Name())
	must(t, err)
	two, err := b.IncrFencingToken(ctx, t.Name())
	must(t, err)
	if one != two {
		t.Fatalf("the same key: %d and %d", one, two)
	}
	if three, err := b.IncrFencingToken(ctx, ""); err != nil || three <= two {
		t.Fatalf("no key: %d after %d, %v", three, two, err)
	}
}
