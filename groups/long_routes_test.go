package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// hasLong has the one replica of the system log know policies of the longest names, as if each had been set, which
// takes half a minute for so many; the last is set.
func hasLong(t *testing.T, r *rig, policies int) {
	t.Helper()
	const like = "like:/a"
	c := r.session()
	c.must(setPolicy(like, wire.RecursiveRW))
	m := r.node.logs[rows.SystemLog].own()
	m.Lock()
	for row, val := range m.System.AllRows() {
		table, is := strings.CutSuffix(row, like)
		for i := 0; is && i < policies-2; i++ {
			if err := m.System.Load(fmt.Appendf(nil, "%sh:/%04d%s", table, i, strings.Repeat("x", 4070)),
				val); err != nil {
				t.Error(err)
			}
		}
	}
	m.Unlock()
	c.must(setPolicy("last:/a", wire.RecursiveRW))
}

// TestRoutesOfManyLongNames: the routes are more than one answer between nodes has room for. A node without a replica
// of the system log learns them in pages, all of one version, and goes on.
func TestRoutesOfManyLongNames(t *testing.T) {
	t.Parallel()
	// a loaded machine takes more than half a minute
	f := apart(t, func(_ int, c *Config) { c.RequestTimeout = 10 * time.Minute })
	near, far := f.rigOn(0), f.rigOn(1)
	fs := far.session()
	fs.must(write("o", "z:/a/x", time.Hour))
	hasLong(t, near, maxReadBytes/4070+40)
	for _, req := range []*wire.Request{
		{Op: wire.OpIsOwnerAlive, Owner: "o"}, {Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000},
		{Op: wire.OpReleaseAll, Owner: "o"},
	} {
		for where, c := range map[string]*caller{"where the system log is": near.session(), "at the other node": fs} {
			if res := c.ask(req); res.Code != wire.OK {
				t.Errorf("%v %s: %v %.200q", req.Op, where, res.Code, res.Message)
			}
		}
	}
	sameRoutes(t, near.node.routes.Load(), far.node.routes.Load())

	// They change while they are read.
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := near.session()
		for i := range 8 {
			if res := c.ask(setPolicy(fmt.Sprintf("n:/%d", i), wire.RecursiveRW)); res.Code != wire.OK {
				t.Errorf("a policy: %v %.200q", res.Code, res.Message)
			}
		}
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if err := far.node.learnRoutes(far.node.clock.Mono()); err != nil {
			t.Errorf("%v", err)
		}
	}
	sameRoutes(t, near.node.routes.Load(), far.node.routes.Load())
}

// sameRoutes checks what a node has learnt.
func sameRoutes(t *testing.T, want, got *wire.Routes) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(want.Roots())), slices.Sorted(slices.Values(got.Roots()))
	if want.Version != got.Version || !slices.Equal(a, b) {
		t.Errorf("version %d of %d roots, and there are %d of %d", want.Version, len(a), got.Version, len(b))
	}
}

// TestRoutesInPages: each page goes on behind the last root of the one before.
func TestRoutesInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const policies = replica.RoutesBytes/4070 + 16
	hasLong(t, r, policies)
	m := r.node.logs[rows.SystemLog].own()
	version, whole := m.System.Roots()
	if len(whole) != policies {
		t.Fatalf("%d roots", len(whole))
	}
	first := m.Routes(0, 0, "")
	second := m.Routes(0, first.Count, string(first.List.Cursor))
	n := len(first.List.Names)
	if n == 0 || n >= policies || string(first.List.Cursor) != first.List.Names[n-1] || len(second.List.Cursor) != 0 {
		t.Errorf("%d roots and then %d", n, len(second.List.Names))
	}
	if got := m.Routes(0, 0, string(first.List.Cursor)); !slices.Equal(got.List.Names, second.List.Names) {
		t.Error("who does not say which version it is at is not told of that in force")
	}
	if !slices.Equal(slices.Concat(first.List.Names, second.List.Names), whole) {
		t.Error("the pages are not the whole")
	}
	if res := m.Routes(version, 0, ""); res.List != nil {
		t.Errorf("%d roots of a version that is known", len(res.List.Names))
	}
}
