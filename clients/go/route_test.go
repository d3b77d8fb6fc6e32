package pathlockd

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestNamespaceOfARequest: which requests are about one namespace, and which.
func TestNamespaceOfARequest(t *testing.T) {
	table := newTable(&wire.Topology{GroupLogs: 8, Segments: 1, Roots: []string{"h:/a/own", "whole"}})
	locks := func(paths ...string) (all []wire.LockRequest) {
		for _, p := range paths {
			all = append(all, wire.LockRequest{Path: p})
		}
		return all
	}
	releases := func(paths ...string) (all []wire.ReleaseRequest) {
		for _, p := range paths {
			all = append(all, wire.ReleaseRequest{Path: p})
		}
		return all
	}
	for name, c := range map[string]struct {
		req  wire.Request
		want string
	}{
		"acquire":              {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a/b", "h:/a")}, "h:/a"},
		"acquire below a root": {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a/own/x")}, "h:/a/own"},
		"acquire in a handler": {wire.Request{Op: wire.OpAcquire, Locks: locks("whole:/a/b", "whole:/c")},
			"whole"},
		"acquire of two namespaces": {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a/b", "h:/b")}, ""},
		"acquire with a release": {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a/b"),
			Releases: releases("h:/a/c")}, "h:/a"},
		"acquire, release elsewhere": {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a/b"),
			Releases: releases("h:/b/c")}, ""},
		"acquire of nothing":         {wire.Request{Op: wire.OpAcquire}, ""},
		"acquire without a colon":    {wire.Request{Op: wire.OpAcquire, Locks: locks("h/a/b")}, ""},
		"acquire without a handler":  {wire.Request{Op: wire.OpAcquire, Locks: locks(":/a/b")}, ""},
		"acquire without a slash":    {wire.Request{Op: wire.OpAcquire, Locks: locks("h:a")}, ""},
		"acquire of an empty path":   {wire.Request{Op: wire.OpAcquire, Locks: locks("")}, ""},
		"acquire that ends in colon": {wire.Request{Op: wire.OpAcquire, Locks: locks("h:/a", "h:")}, ""},
		"release":                    {wire.Request{Op: wire.OpRelease, Releases: releases("h:/a/b")}, "h:/a"},
		"release with its edge": {wire.Request{Op: wire.OpRelease, Releases: releases("h:/a/b"), DelWait: true},
			""},
		"renew of a namespace": {wire.Request{Op: wire.OpRenew, Domains: []string{"h:/a"}}, "h:/a"},
		"renew of a path":      {wire.Request{Op: wire.OpRenew, Domains: []string{"h:/a/b"}}, ""},
		"renew of a handler":   {wire.Request{Op: wire.OpRenew, Domains: []string{"whole"}}, ""},
		"renew of two":         {wire.Request{Op: wire.OpRenew, Domains: []string{"h:/a", "h:/b"}}, ""},
		"renew of all":         {wire.Request{Op: wire.OpRenew}, ""},
		"assert": {wire.Request{Op: wire.OpAssertFencing, Paths: []string{"h:/a/b", "h:/a/c"}},
			"h:/a"},
		"assert about two namespaces": {wire.Request{Op: wire.OpAssertFencing, Paths: []string{"h:/a/b", "h:/b"}}, ""},
		"inspect":                     {wire.Request{Op: wire.OpInspectPath, Path: "h:/a/b"}, "h:/a"},
		"describe":                    {wire.Request{Op: wire.OpDescribe, Path: "h:/a/own"}, "h:/a/own"},
		"is_blocking":                 {wire.Request{Op: wire.OpIsBlocking, Path: "h:/b/own"}, "h:/b"},
		"a policy":                    {wire.Request{Op: wire.OpGetPolicy, Namespace: "whole"}, "whole"},
		"a change of policy":          {wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a"}, ""},
		"a listing":                   {wire.Request{Op: wire.OpScanLocks, Path: "h:/a"}, ""},
		"an owner":                    {wire.Request{Op: wire.OpIsOwnerAlive, Owner: "o"}, ""},
	} {
		if got := table.namespace(&c.req); got != c.want {
			t.Errorf("%s: namespace %q, want %q", name, got, c.want)
		}
	}
	for range 3 { // from memory as well
		for _, ns := range []string{"h:/a", "h:/b", "whole", "h:/a/own"} {
			if got := table.group(ns); got != int(wire.GroupOf(ns, 8)) {
				t.Errorf("%s is in group %d", ns, got)
			}
		}
	}
}
