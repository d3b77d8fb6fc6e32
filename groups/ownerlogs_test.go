package groups

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// entries is how far each log of groups is, in entries that somebody proposed. Nothing is
// proposed by itself in a log in which nothing ends with time.
func entries(n *Node) map[uint64]uint64 {
	all := make(map[uint64]uint64)
	for _, m := range n.hosted() {
		all[m.Shard] = m.AppliedIndex()
	}
	return all
}

// TestOwnerWideWritesWhereTheOwnerIs: what is about an owner wherever it is proposes
// something in the logs in which it is, and in no other; what tells it of it, at its home.
func TestOwnerWideWritesWhereTheOwnerIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogCount = 8 })
	n := r.node
	eventually(t, "every log is led", func() bool {
		for _, l := range n.logs {
			if l.held.Load() == 0 {
				return false
			}
		}
		return true
	})
	const path, owner = "h:/only/here", "alice"
	at := n.logOf(n.groupOf("h:/only")).shard
	home := n.logOf(wire.HomeOf(owner, n.cfg.GroupCount)).shard
	if home == at {
		t.Fatalf("the home of %s is in the log of %s: nothing can be told apart", owner, path)
	}
	c := r.session()
	for _, q := range []struct {
		req    wire.Request
		writes []uint64
	}{
		{wire.Request{Op: wire.OpRenew, TTLMillis: 3_600_000}, []uint64{at}},
		{wire.Request{Op: wire.OpRenew, TTLMillis: 3_600_000, Domains: []string{"h"}}, []uint64{at}},
		{wire.Request{Op: wire.OpBind}, []uint64{at}},
		{wire.Request{Op: wire.OpUnbind}, []uint64{at}},
		{wire.Request{Op: wire.OpListLocks}, nil},
		{wire.Request{Op: wire.OpIsOwnerAlive}, nil},
		{wire.Request{Op: wire.OpReleaseAll}, []uint64{at}},
		{wire.Request{Op: wire.OpReleaseAll, Domains: []string{"h:/only", "h:/z"}}, []uint64{at}},
		{wire.Request{Op: wire.OpRequestRevoke}, []uint64{at, home}},
		{wire.Request{Op: wire.OpForceRelease}, []uint64{at, home}},
	} {
		c.must(write(owner, path, time.Hour))
		before := entries(n)
		if q.req.Op == wire.OpBind || q.req.Op == wire.OpUnbind {
			q.req.GraceMillis = 1000
		}
		q.req.Owner = owner
		c.must(&q.req)
		after := entries(n)
		for _, shard := range slices.Sorted(maps.Keys(before)) {
			grew := after[shard] > before[shard]
			switch {
			case slices.Contains(q.writes, shard) && !grew:
				t.Errorf("%v of %v: nothing was proposed in log %d, where the owner is", q.req.Op, q.req.Domains, shard)
			case grew && !slices.Contains(q.writes, shard) && shard != at: // its lease has the clock tick there
				t.Errorf("%v of %v: %d entries were proposed in log %d, with which the owner has nothing to do",
					q.req.Op, q.req.Domains, after[shard]-before[shard], shard)
			}
		}
	}
}

// TestOwnerWideWhileALogHasNoLeader: what is about an owner wherever it is cannot be
// answered then, since nobody can say that the owner is not there; what names namespaces
// is, when theirs have one.
func TestOwnerWideWhileALogHasNoLeader(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 5, func(_ int, c *Config) {
		c.Faults, c.LogCount, c.RequestTimeout, c.EvictionWindow = w, 8, 3*time.Second, time.Hour
	})
	f.placed(5)
	// Of five nodes two go that are two of the three voters of some log, and not of the
	// system log. What is asked, the third one is: it has a replica, and nobody leads it.
	hosts := func(i int, shard uint64) bool { return f.nodes[i].logs[shard].local.Load() != nil }
	var down []int
	up := -1
	for i := range f.nodes {
		for j := range i {
			for shard := range f.nodes[0].logs {
				if len(down) > 0 || !hosts(i, shard) || !hosts(j, shard) ||
					hosts(i, rows.SystemLog) && hosts(j, rows.SystemLog) {
					continue
				}
				down = []int{i, j}
				up = slices.IndexFunc(f.nodes, func(n *Node) bool {
					k := slices.Index(f.nodes, n)
					return k != i &&
						k != j && hosts(k, shard)
				})
			}
		}
	}
	if up < 0 {
		t.Fatal("no two nodes are a majority of a log and not of the system log")
	}
	n := f.nodes[up]
	var gone, there []string // namespaces; of those that are there, each in another log
	seen := make(map[uint64]bool)
	for i := range 200 {
		ns := fmt.Sprintf("h:/n%d", i)
		shard := n.logOf(n.groupOf(ns)).shard
		switch {
		case hosts(down[0], shard) && hosts(down[1], shard):
			if hosts(up, shard) {
				gone = append(gone, ns)
			}
		case !seen[shard]:
			seen[shard] = true
			there = append(there, ns)
		}
	}
	if len(there) < 2 || len(gone) == 0 {
		t.Fatalf("%v keep a leader, %v lose theirs", there, gone)
	}
	there = there[:2]
	const token = 77 // of both
	r := f.rigOn(up)
	c := r.session()
	for _, ns := range there {
		f.until("it is locked", func() bool {
			req := write("alice", ns+"/x", time.Hour)
			req.Token = token
			return c.ask(req).Code == wire.OK
		})
	}
	for _, i := range down {
		f.kill(w, i)
	}
	lost := n.logOf(n.groupOf(gone[0])).shard
	f.until("nobody leads the log", func() bool { return n.logs[lost].lead.Load().leader == 0 })
	ask := func(op wire.Op, domains ...string) *wire.Request {
		return &wire.Request{Op: op, Owner: "alice", TTLMillis: 3_600_000, Domains: domains}
	}
	ops := []wire.Op{wire.OpRenew, wire.OpIsOwnerAlive, wire.OpListLocks, wire.OpReleaseAll}
	callers := []*caller{c} // of a node with a replica of the log, and of those without
	for i, n := range f.nodes {
		if n != nil && i != up {
			callers = append(callers, f.rigOn(i).session())
		}
	}
	var open []*outcome
	var what []*wire.Request
	for _, op := range ops {
		for _, domains := range [][]string{nil, {"h"}, {there[0], gone[0]}} {
			for _, at := range callers {
				what = append(what, ask(op, domains...))
				open = append(open, at.start(at.r.next.Add(1), ask(op, domains...)))
			}
		}
	}
	for i, o := range open { // each takes all of its time
		if res := <-o.done; res.Code != wire.Unavailable {
			t.Errorf("%v of %v: %+v, want UNAVAILABLE", what[i].Op, what[i].Domains, res)
		}
	}
	for _, domains := range [][]string{{there[0]}, {there[0] + "/deep/down"}, there} {
		for _, op := range ops[:3] {
			f.until(fmt.Sprintf("%v of %v", op, domains), func() bool {
				res := c.ask(ask(op, domains...))
				return res.Code == wire.OK && res.Status == wire.StatusOK && (op == wire.OpRenew || res.Flag)
			})
		}
	}
	held := &wire.Request{Op: wire.OpAssertFencing, Owner: "alice", Token: token}
	for _, paths := range [][]string{nil, {there[0] + "/x", there[1] + "/x"}} {
		held.Paths = paths
		if res := c.ask(held); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the token of %v, whose logs are led: %v %q", paths, res.Code, res.Message)
		}
	}
	f.until("all of both is released", func() bool { return c.ask(ask(wire.OpReleaseAll, there...)).Code == wire.OK })
	if res := c.ask(ask(wire.OpListLocks, there...)); res.Code != wire.OK || len(res.List.Infos) != 0 {
		t.Errorf("after the release: %+v", res)
	}
}
