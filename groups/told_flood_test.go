package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// namespacesOf is some namespaces that live in the group of a path.
func namespacesOf(n *Node, like string, many int) (out []string) {
	group := n.groupOf(n.routes.Load().Resolve(like))
	for i := 0; len(out) < many; i++ {
		if ns := fmt.Sprintf("h:/n%d", i); n.groupOf(ns) == group {
			out = append(out, ns)
		}
	}
	return out
}

// many takes leases in many namespaces, tied or not.
func (c *caller) many(owner string, namespaces []string, holds int, flags wire.Flags) {
	c.r.t.Helper()
	for some := range slices.Chunk(namespaces, 50) {
		var open []*outcome
		for _, ns := range some {
			req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: uint64(time.Hour.Milliseconds()),
				Flags: flags}
			for i := range holds {
				req.Locks = append(req.Locks, wire.LockRequest{Path: fmt.Sprintf("%s/%d", ns, i)})
			}
			open = append(open, c.start(c.r.next.Add(1), req))
		}
		for _, o := range open {
			if res := <-o.done; res.Code != wire.OK || res.Status != wire.StatusOK {
				c.r.t.Fatalf("%+v", res)
			}
		}
	}
}

// TestToldFloodsApply: revokes of one owner at once do not hold up who has to do with something else.
func TestToldFloodsApply(t *testing.T) {
	const leases, holds, revokes = 1000, 64, 200
	for name, flags := range map[string]wire.Flags{"not tied": 0, "tied": wire.FlagBind} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			a := r.session()
			spaces := namespacesOf(r.node, "h:/other/x", leases)
			a.many("o", spaces, holds, flags)
			var open []*outcome
			for range revokes {
				open = append(open, a.start(r.next.Add(1), &wire.Request{Op: wire.OpRequestRevoke, Owner: "o"}))
			}
			for _, o := range open {
				if res := <-o.done; res.Code != wire.OK {
					t.Errorf("%v", res.Err())
				}
			}
			// Most of them are in few entries. What an entry says of leases is as long as what it makes others wait
			// for.
			m := r.node.logOf(r.node.groupOf(spaces[0])).local.Load()
			m.Lock()
			defer m.Unlock()
			if said := cap(m.Out.Told); said > 10*leases {
				t.Errorf("an entry has said something of leases %d times, where there are %d", said, leases)
			}
		})
	}
}

// TestToldFloodsLink: what is told of leases to a node that is fed does not close its way, on which else hangs.
func TestToldFloodsLink(t *testing.T) {
	const leases, revokes = 1000, 200
	f := apart(t, nil)
	n := f.nodes[0]
	shard := n.logOf(n.groupOf(n.routes.Load().Resolve("h:/other/x"))).shard
	f.listen(1, 0, shard)
	a, v := f.rigOn(0).session(), f.rigOn(1).listening()
	owner := strings.Repeat("o", 1000)
	a.many(owner, namespacesOf(n, "h:/other/x", leases), 1, wire.FlagBind)
	tied := write("v", "h:/other/x", time.Hour)
	tied.Flags = wire.FlagBind
	v.must(tied)
	before := len(v.heard())
	var open []*outcome
	for range revokes {
		open = append(open, a.start(a.r.next.Add(1), &wire.Request{Op: wire.OpRequestRevoke, Owner: owner}))
	}
	bad := 0
	for len(open[revokes-1].done) == 0 {
		if res := v.ask(write("v", "h:/other/x", time.Hour)); res.Code != wire.OK {
			if bad++; bad == 1 {
				t.Logf("the other node's client: %v", res.Err())
			}
		}
	}
	for _, o := range open {
		<-o.done
	}
	// what the other node is told of that comes behind all else
	a.must(&wire.Request{Op: wire.OpForceRelease, Owner: "v"})
	eventually(t, "it is told of its kill", func() bool { return len(v.heard()) > before })
	if got := v.heard()[before:]; len(got) != 1 || bad > 0 {
		t.Errorf("a client of the other node was refused %d times, and told %.100q, not of its kill alone", bad, got)
	}
}
