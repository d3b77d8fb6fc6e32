package groups

import (
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// How nodes that have no replica of the system log learn the routes: from its leader, in pages when they are
// long. All pages must be of one version. As policies may change more often than all pages can be told, who tells
// them keeps the versions that somebody is at, and a question for a later page names its own.

const (
	// routesBytes is how many bytes of roots one answer has, and one root more: all of them may be more than nodes
	// tell each other in one (maxReadBytes).
	routesBytes = 4 << 20
	// maxPagedRoutes is how many versions of the routes are kept for who was told a page of them, and not the last. Over it
	// a further one is not kept while somebody is at each of them: to drop one for it would have nobody get to the last page.
	// One takes as much as its roots have string headers, and the names that are not in force any more.
	maxPagedRoutes = 16
	// pagedRoutesKept is for how long one is kept after a page of it was asked for. Whoever has not asked for the next
	// by then is gone, or has learnt the routes in another way.
	pagedRoutesKept = 5 * time.Second
	// laterWithin is how long a node is asked for routes that are not there yet.
	laterWithin = 5 * time.Second
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

// note notes that a page of a version is told, and whether there are more. A version of which there are no more need not be
// kept, but may: others can be at it.
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

// forgetPaged is forget for when nobody asks.
func (m *machine) forgetPaged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paged.forget(m.clock.Mono())
}

// routes answers the routes in force: their version in Count, and their roots if that is
// above the one given: as many as an answer has room for, in order, those after one that was told. The cursor is the last
// of them if there are more. A later page is of the version that it names, as long as that is known; else no
// root comes with the version in force, and who asks begins anew. A node of a build that names none is told of that in force.
func (m *machine) routes(above, of uint64, after string) (res wire.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.system == nil {
		res.Fail(wire.Errorf(wire.Internal, "groups: log %d has no routes", m.shard))
		return res
	}
	if res.Count = m.system.Version(); res.Count <= above {
		return res
	}
	res.List = new(wire.List)
	now := m.clock.Mono()
	m.paged.forget(now)
	if of == 0 {
		of = res.Count
	}
	var roots []string
	if i := m.paged.find(of); i >= 0 {
		res.Count, roots = of, m.paged[i].roots
	} else if of != res.Count {
		return res
	} else {
		_, roots = m.system.Roots()
	}
	names, more := routesPage(roots, after)
	if res.List.Names = names; more {
		res.List.Cursor = []byte(names[len(names)-1])
	}
	m.paged.note(of, roots, more, now)
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
		if bytes += len(roots[i]); bytes >= routesBytes && i+1 < len(roots) {
			return roots[:i+1], true
		}
	}
	return roots, false
}

// learning is the calls that wait until this node knows the routes that were in force when they asked. One question is
// asked for all that wait; those that come while it is under way wait for the next. All pages for each of
// thousands of calls would be more than a node has memory for. Whoever waits has a place of a call in steps (maxStepped,
// maxTended), or is one of the node's own loops; a call whose time is over is let go of with the question under way.
type learning struct {
	mu      sync.Mutex
	waiting []*learn
	busy    bool

	// pages has a token for who asks for later pages. Beside those who wait for the routes in force there is who
	// wants later ones (learnNext), and often the outcome of one is what the other wants.
	pages chan struct{}
}

// learn is one call's wish.
type learn struct {
	since time.Duration
	told  chan struct{} // closed once err says what became of it
	err   *wire.Error
}

func (l *learning) begin() {
	l.pages = make(chan struct{}, 1)
	l.pages <- struct{}{}
}

// learnRoutes gets the routes in force from the system log's leader. It is for nodes that
// have no replica of that log.
func (n *Node) learnRoutes(since time.Duration) *wire.Error {
	w := &learn{since: since, told: make(chan struct{})}
	n.learning.mu.Lock()
	n.learning.waiting = append(n.learning.waiting, w)
	begins := !n.learning.busy
	n.learning.busy = true
	n.learning.mu.Unlock()
	if begins {
		n.tasks.run(n.learnForAll)
	}
	switch n.tasks.wait(since+n.cfg.RequestTimeout-n.clock.Mono(), w.told, n.stop) {
	case 0:
		return w.err
	case 1:
		return errReadStopped
	}
	return errReadLate
}

// learnForAll learns the routes until nobody waits for them. It has as much time as who came last: the others
// stop waiting when theirs is over.
func (n *Node) learnForAll() {
	for l := &n.learning; ; {
		l.mu.Lock()
		all := l.waiting
		l.waiting = nil
		l.busy = len(all) > 0
		l.mu.Unlock()
		if len(all) == 0 {
			return
		}
		since := all[0].since
		for _, w := range all {
			since = max(since, w.since)
		}
		err := n.learnRoutesBy(askRoute, n.routes.Load().Version, since)
		for _, w := range all {
			w.err = err
			close(w.told)
		}
	}
}

// learnRoutesAfter waits a while for routes later than of a version. It is called by one goroutine at a time.
func (n *Node) learnRoutesAfter(version uint64) *wire.Error {
	return n.learnRoutesBy(askLater, version, n.clock.Mono())
}

// learnRoutesBy asks for the routes in force, if they are later than of a version. Those that were in force when the first
// page was told will do, whoever learns them.
func (n *Node) learnRoutesBy(what asked, version uint64, since time.Duration) *wire.Error {
	q := &query{what: what, version: version}
	first := n.askLeader(n.logs[systemShard], q, since)
	if err := first.Err(); err != nil || first.List == nil {
		return err
	}
	if len(first.List.Cursor) > 0 {
		switch n.tasks.wait(since+n.cfg.RequestTimeout-n.clock.Mono(), n.learning.pages, n.stop) {
		case 0:
			defer func() { n.learning.pages <- struct{}{} }()
		case 1:
			return errReadStopped
		default:
			return errReadLate
		}
	}
	return n.learnPages(q, &first, since)
}

// errRoutesChange answers a call that would have to know the routes.
var errRoutesChange = wire.Errorf(wire.Unavailable,
	"the namespace policies changed again and again while they were read; nothing was read, try again")

// learnPages asks for the pages behind a first one, until this node knows routes as late as that. When their version is
// not kept any more, because another node leads or too many are being told, it begins with those in force.
func (n *Node) learnPages(q *query, page *wire.Result, since time.Duration) *wire.Error {
	wanted := page.Count
	var roots []string
	for n.routes.Load().Version < wanted {
		if q.token == 0 {
			roots, q.token = nil, int64(page.Count)
		}
		if of := uint64(q.token); page.Count == of {
			roots = append(roots, page.List.Names...)
			if q.after = string(page.List.Cursor); q.after == "" {
				n.setRoutes(wire.NewRoutes(of, n.cfg.Segments, roots))
				return nil
			}
		} else {
			if n.clock.Mono()-since >= n.cfg.RequestTimeout {
				return errRoutesChange
			}
			q.token, q.after = 0, ""
		}
		res := n.askLeader(n.logs[systemShard], q, since)
		if err := res.Err(); err != nil || res.List == nil {
			return err
		}
		page = &res
	}
	return nil
}
