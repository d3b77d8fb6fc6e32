package pathlockd

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestNear: a path lies in one of the namespaces that it begins with by whole segments, the two roots of its handler
// among them.
func TestNear(t *testing.T) {
	var k keeper
	k.init(nil)
	for _, name := range []leaseName{
		{"o", "h"}, {"o", "h:/"}, {"o", "h:/a"}, {"o", "h:/a/b"}, {"o", "h:/a/b/c"}, {"o", "h:/ab"}, {"o", "h:/a/bc"},
		{"o", "g"}, {"other", "h:/a"},
	} {
		k.mu.leases[name] = &lease{name: name}
	}
	for path, want := range map[string][]string{
		"h:/":      {"h", "h:/"},
		"h:/a":     {"h", "h:/", "h:/a"},
		"h:/a/b":   {"h", "h:/", "h:/a", "h:/a/b"},
		"h:/a/b/d": {"h", "h:/", "h:/a", "h:/a/b"},
		"h:/abc":   {"h", "h:/"},
		"f:/a":     nil,
	} {
		var got []string
		for _, l := range k.near("o", path) {
			if l.name.owner != "o" {
				t.Errorf("a lease of %s", l.name.owner)
			}
			got = append(got, l.name.namespace)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s may lie in %q, want %q", path, got, want)
		}
	}
}

// TestNearCostsNoMemory: each acquire of a program asks whether locks of its owner are kept (Client.Do).
func TestNearCostsNoMemory(t *testing.T) {
	var k keeper
	k.init(nil)
	name := leaseName{"other", "h:/a"}
	k.mu.leases[name] = &lease{name: name}
	k.count.Add(1)
	if n := testing.AllocsPerRun(100, func() {
		if k.names(&wire.Request{Op: wire.OpAcquire, Owner: "o", Locks: []wire.LockRequest{{Path: "h:/a/b"}}}) {
			t.Error("they are another owner's")
		}
	}); n != 0 {
		t.Errorf("it takes memory %v times", n)
	}
}
