package pathlockd

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Locks that something may take back are believed in for two seconds (releasing.go), and what tells of them may be on a
// page of a look that comes later than that. So those of which the first page does not tell are asked about apart: each
// by its token, and by those of its paths alone that may be taken back, as it may have many. What its owner took
// together with a path has raised the token: then since when the path is held tells whether it is as the lock took it
// (Lock.same), if that is known, and each path is asked about by itself.

// maxAssured is how many such questions of a lease are under way before more locks wait for their turn. All of one lock
// are asked at once.
const maxAssured = 16

// maxDescribed is how many paths of a lock are asked about each by itself. With more it has to be told of by a page.
const maxDescribed = 16

// assures is those questions of a lease. They end with it. Everything in it is under the keeper's lock.
type assures struct {
	next  []*Lock // to be asked about, each once
	under int     // how many are under way
}

// assured is the questions of one lock, which were asked at a time: whether it is held under its token, one, but if
// there are more paths than one may name; or who holds each path.
type assured struct {
	l     *lease
	lk    *Lock
	asked time.Duration
	left  int      // how many are not answered
	not   bool     // one did not say that it is held
	paths []string // of which each is asked about by itself; nil: it is asked by its token
	held  holds    // of those, what its owner holds
}

// assure asks after the first page of a look about the locks up to a number that may be taken back, and of which that
// page does not tell.
func (l *lease) assure(held holds, upTo int, todo *chores) {
	waits := make(map[*Lock]bool, len(l.assures.next))
	for _, lk := range l.assures.next {
		waits[lk] = true
	}
	for _, lk := range l.locks {
		if lk.capped == 0 || lk.number > upTo || waits[lk] {
			continue
		}
		if _, missing := lk.missing(held); missing {
			l.assures.next = append(l.assures.next, lk)
		}
	}
	l.assureNext(todo)
}

// assureNext asks about as many of them as may be under way.
func (l *lease) assureNext(todo *chores) {
	for l.assures.under < maxAssured && len(l.assures.next) > 0 {
		lk := l.assures.next[0]
		l.assures.next[0] = nil
		l.assures.next = l.assures.next[1:]
		if lk.lease != l || lk.capped == 0 { // it is lost, or a page has told of it
			continue
		}
		paths, fenced := lk.atRisk()
		if !fenced {
			continue
		}
		a := &assured{l: l, lk: lk, asked: l.k.c.now()}
		for some := range slices.Chunk(paths, wire.MaxPaths) {
			a.left++
			c := newCall(a)
			c.set(&wire.Request{Op: wire.OpAssertFencing, Owner: lk.owner, Token: lk.token, Paths: some})
			l.hurry(c)
			c.doubtful = true
			todo.calls = append(todo.calls, c)
		}
		l.assures.under += a.left
	}
}

// atRisk answers the paths of a lock that may be taken back, and whether its token says something of each of them.
func (l *Lock) atRisk() (paths []string, fenced bool) {
	for i, p := range l.paths {
		if l.risky != nil && !l.risky[i] {
			continue
		}
		if p.Mode != Write || p.Permits > 0 {
			return nil, false
		}
		paths = append(paths, p.Path)
	}
	return paths, l.token > 0
}

// describe asks who holds the paths of a lock that may be taken back, of which its token does not tell it.
func (a *assured) describe(todo *chores) {
	paths, fenced := a.lk.atRisk()
	some := func(p Path) bool { return slices.Contains(paths, p.Path) }
	if !fenced || len(paths) > maxDescribed || !a.lk.known(some) {
		return
	}
	d := &assured{l: a.l, lk: a.lk, asked: a.l.k.c.now(), left: len(paths), paths: paths, held: make(holds)}
	for _, path := range paths {
		c := newCall(d)
		c.set(&wire.Request{Op: wire.OpDescribe, Path: path, Page: 1})
		a.l.hurry(c)
		todo.calls = append(todo.calls, c)
	}
	a.l.assures.under += d.left
}

// says takes an answer.
func (a *assured) says(res *wire.Result, err error) {
	switch {
	case err != nil:
		a.not = true
	case a.paths == nil:
		a.not = a.not || res.Status != wire.StatusOK // another request of its owner may have raised the token
	default:
		others := func(info LockInfo) bool { return info.Owner != a.lk.owner }
		a.held.addAll(slices.DeleteFunc(slices.Clone(list(res).Infos), others))
	}
}

// tells says that the lock was held as far as it was asked about.
func (a *assured) tells() bool {
	for i, p := range a.lk.paths {
		if !slices.Contains(a.paths, p.Path) {
			continue
		}
		if h, ok := a.held[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}]; !ok || !a.lk.same(i, h) {
			return false
		}
	}
	return !a.not
}

// land implements receiver.
func (a *assured) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	l := a.l
	var todo chores
	l.k.mu.Lock()
	a.left--
	a.says(res, err)
	l.assures.under--
	if l.place >= 0 {
		switch {
		case a.left > 0 || a.lk.lease != l:
		case a.tells():
			l.saved(a.lk, a.asked)
			l.risks()
			l.k.fix(l)
		case a.paths == nil && err == nil:
			a.describe(&todo)
		}
		l.assureNext(&todo)
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}
