package replica

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Routes are told to nodes that have no replica of the system log in pages (routes.go).

const (
	// RoutesBytes is how many bytes of roots one answer has, and one root more: all of them may be more than nodes
	// tell each other in one (maxReadBytes).
	RoutesBytes = 4 << 20
	// maxPagedRoutes is how many versions of the routes are kept for who was told a page of them, and not the last.
	// Over it a further one is not kept while somebody is at each of them: to drop one for it would have nobody get to
	// the last page. One takes as much as its roots have string headers, and the names that are not in force any more.
	maxPagedRoutes = 16
	// pagedRoutesKept is for how long one is kept after a page of it was asked for. Whoever has not asked for the next
	// by then is gone, or has learnt the routes in another way.
	pagedRoutesKept = 5 * time.Second
)

// pagedRoutes is the versions of the routes that are being told in pages. It is guarded by mu of the machine.
type pagedRoutes []pagedVersion

// pagedVersion is one of them.
type pagedVersion struct {
	version uint64
	roots   []string      // in order; never changed
	asked   time.Duration // when a page was asked for last
	over    bool          // that was the last page
}

func (p pagedRoutes) find(version uint64) int {
	return slices.IndexFunc(p, func(v pagedVersion) bool { return v.version == version })
}

// note notes that a page of a version is told, and whether there are more. A version of which there are no more need
// not be kept, but may: others can be at it.
func (p *pagedRoutes) note(version uint64, roots []string, more bool, now time.Duration) {
	if i := p.find(version); i >= 0 {
		(*p)[i].asked, (*p)[i].over = now, !more
		return
	}
	if !more {
		return
	}
	if len(*p) >= maxPagedRoutes {
		first := slices.IndexFunc(*p, func(v pagedVersion) bool { return v.over })
		if first < 0 {
			return
		}
		*p = slices.Delete(*p, first, first+1)
	}
	*p = append(*p, pagedVersion{version: version, roots: roots, asked: now})
}

// forget drops the versions that nobody is at any more.
func (p *pagedRoutes) forget(now time.Duration) {
	*p = slices.DeleteFunc(*p, func(v pagedVersion) bool { return now-v.asked >= pagedRoutesKept })
}

// ForgetPaged is forget for when nobody asks.
func (m *Machine) ForgetPaged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Paged.forget(m.Clock.Mono())
}

// Routes answers the routes in force: their version in Count, and their roots if that is above the one given: as many
// as an answer has room for, in order, those after one that was told. The cursor is the last of them if there are more.
// A later page is of the version that it names, as long as that is known; else no root comes with the version in force,
// and who asks begins anew. A node of a build that names none is told of that in force.
func (m *Machine) Routes(above, of uint64, after string) (res wire.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.System == nil {
		res.Fail(wire.Errorf(wire.Internal, "groups: log %d has no routes", m.Shard))
		return res
	}
	if res.Count = m.System.Version(); res.Count <= above {
		return res
	}
	res.List = new(wire.List)
	now := m.Clock.Mono()
	m.Paged.forget(now)
	if of == 0 {
		of = res.Count
	}
	var roots []string
	if i := m.Paged.find(of); i >= 0 {
		res.Count, roots = of, m.Paged[i].roots
	} else if of != res.Count {
		return res
	} else {
		_, roots = m.System.Roots()
	}
	names, more := routesPage(roots, after)
	if res.List.Names = names; more {
		res.List.Cursor = []byte(names[len(names)-1])
	}
	m.Paged.note(of, roots, more, now)
	return res
}

// routesPage is what one answer has room for of the roots after one, and whether there are more.
func routesPage(roots []string, after string) (page []string, more bool) {
	if after != "" {
		at, found := slices.BinarySearch(roots, after)
		if found {
			at++
		}
		roots = roots[at:]
	}
	for i, bytes := 0, 0; i < len(roots); i++ {
		if bytes += len(roots[i]); bytes >= RoutesBytes && i+1 < len(roots) {
			return roots[:i+1], true
		}
	}
	return roots, false
}
