package replica

import (
	"testing"
)

// TestPagedRoutesAreBounded: a version that somebody is at is kept for a while, and not dropped for a further one.
func TestPagedRoutesAreBounded(t *testing.T) {
	t.Parallel()
	var p pagedRoutes
	kept := func(want bool, versions ...uint64) {
		t.Helper()
		for _, v := range versions {
			if (p.find(v) >= 0) != want {
				t.Errorf("version %d is kept: %v", v, !want)
			}
		}
	}
	p.note(100, nil, false, 0)
	kept(false, 100) // nobody asks for more of it
	for v := range uint64(maxPagedRoutes) {
		p.note(1+v, nil, true, 0)
	}
	p.note(101, nil, true, 1)
	kept(true, 1, 2, 3, maxPagedRoutes)
	kept(false, 101)
	p.note(2, nil, false, 1)
	p.note(3, nil, false, 1)
	kept(true, 2, 3)
	p.note(3, nil, true, 2) // another is at it
	p.note(102, nil, true, 2)
	p.note(103, nil, true, 2)
	kept(true, 1, 3, 102)
	kept(false, 2, 103)
	if len(p) > maxPagedRoutes {
		t.Errorf("%d are kept", len(p))
	}
	p.forget(pagedRoutesKept)
	kept(false, 1, 4)
	kept(true, 3, 102)
	p.forget(pagedRoutesKept + 2)
	kept(false, 3, 102)
}
