package naive

import (
	"reflect"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// reasons are all that Blocking may be asked.
var reasons = []wire.Reason{
	wire.ReasonAncestorLocked, wire.ReasonWriteLocked, wire.ReasonReadLocked, wire.ReasonDescendantWriteLocked,
	wire.ReasonDescendantReadLocked, wire.ReasonSemaphoreFull, wire.ReasonQueued,
}

// scans are what Scan is asked for: a namespace, a path, everything.
var scans = append([]string{"", "h:/a/b", "h"}, spaces...)

// checkEvery is over how many steps what can be asked about paths and owners is
// spread: what is wrong there stays wrong for a while.
const checkEvery = 4

// check compares what can be seen of the group with the model, and the replicas
// with each other.
func (m *machine) check(t *rapid.T) {
	m.checks++
	owner := owners[m.checks/checkEvery%len(owners)]
	v := m.moved.state.View()
	if v.Digest() != m.plain.state.View().Digest() {
		t.Fatalf("the replicas differ: %s", diffRows(v, m.plain.state.View()))
	}
	turn := m.checks
	for _, ns := range spaces {
		for _, path := range paths[ns] {
			if turn++; turn%checkEvery == 0 {
				agrees(t, m.model.SeesPath(v, ns, path))
				m.checkOwnership(t, v, owner, ns, path)
			}
		}
		agrees(t, m.model.SeesPolicy(v, ns))
	}
	m.checkOwner(t, v, owner)
	m.checkScan(t, v, scans[m.checks%len(scans)])
	at, ok := m.moved.state.NextDeadline()
	if want, some := m.model.nextDeadline(); at != want || ok != some {
		t.Fatalf("next deadline: got %d %v, want %d %v", at, ok, want, some)
	}
	m.checkStats(t)
}

func agrees(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// checkOwnership compares what can be asked about an owner and a path.
func (m *machine) checkOwnership(t *rapid.T, v *engine.View, owner, ns, path string) {
	fence, _ := m.model.fence(ns, path)
	for token := max(fence-1, 1); token <= fence+1; token++ {
		if got, want := v.Assert(owner, ns, path, token),
			m.model.assert(owner, ns, path, token); !reflect.DeepEqual(got, want) {
			t.Fatalf("assert %s %s %d: got %s, want %s", owner, path, token, (*resultText)(&got), (*resultText)(&want))
		}
	}
	for _, r := range reasons {
		if got, want := v.Blocking(ns, path, owner, r), m.model.blocking(ns, path, owner, r); got != want {
			t.Fatalf("blocking %s %s %v: got %v, want %v", owner, path, r, got, want)
		}
	}
}

func (m *machine) checkOwner(t *rapid.T, v *engine.View, owner string) {
	for _, domains := range [][]string{nil, {"h:/a"}, {"h:"}, {"g:", "h:/a/n"}} {
		agrees(t, m.model.SeesOwner(v, owner, domains))
		_, l := m.model.list(owner, domains)
		for max := 1; max <= 3; max++ {
			var all []wire.LockInfo
			for after := (engine.Owned{}); ; after = engine.PlaceOf(&all[len(all)-1]) {
				page := v.Owned(owner, domains, after, max)
				if all = append(all, page...); len(page) < max {
					break
				}
			}
			if !reflect.DeepEqual(all, l) {
				t.Fatalf("list %s %v in pages of %d:\n got %+v\nwant %+v", owner, domains, max, all, l)
			}
		}
	}
	if got, want := m.moved.owners[owner], m.model.ownerships(owner); got != want {
		t.Fatalf("%s stands in %d namespaces, want %d", owner, got, want)
	}
}

// checkScan reads all locks page by page.
func (m *machine) checkScan(t *rapid.T, v *engine.View, below string) {
	var all []wire.LockInfo
	for after := ""; ; {
		page, last := v.Scan(below, after, 3)
		if all = append(all, page...); last == "" {
			break
		}
		after = last
	}
	if want := m.model.all(below); !reflect.DeepEqual(sortLocks(all), want) {
		t.Fatalf("scan %q:\n got %+v\nwant %+v", below, all, want)
	}
}

func (m *machine) checkStats(t *rapid.T) {
	got := m.plain.state.Stats()
	got.Fences = 0
	want := engine.Stats{Kept: len(m.model.kept), Edges: len(m.model.edges)}
	for _, h := range m.model.holds {
		if h.mode == wire.ModeWrite {
			want.Writes++
		} else {
			want.Reads++
		}
	}
	for _, w := range m.model.waiters {
		want.Waiting += len(wishes(w.locks))
	}
	if got != want {
		t.Fatalf("stats: got %+v, want %+v", got, want)
	}
}
