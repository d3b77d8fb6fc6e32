package pathlockd

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Locks that something may take back are believed in for two seconds (releasing.go), and what tells of them may be on a
// page of a look that comes later than that. So those of which the first page does not tell are asked about apart: each
// by its token, and by those of its paths alone that may be taken back, as it may have many.

// maxAssured is how many such questions of a lease are under way before more locks wait for their turn. All of one lock
// are asked at once.
const maxAssured = 16

// assures is those questions of a lease. They end with it. Everything in it is under the keeper's lock.
type assures struct {
	next  []*Lock // to be asked about, each once
	under int     // how many are under way
}

// assured is the questions of one lock, which were asked at a time: one, but if there are more paths than one may name.
type assured struct {
	l     *lease
	lk    *Lock
	asked time.Duration
	left  int  // how many are not answered
	not   bool // one did not say that it is held
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

// land implements receiver.
func (a *assured) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	l := a.l
	var todo chores
	l.k.mu.Lock()
	a.left--
	a.not = a.not || err != nil || res.Status != wire.StatusOK // another request of its owner may have raised the token
	l.assures.under--
	if l.place >= 0 {
		if a.left == 0 && !a.not && a.lk.lease == l {
			l.saved(a.lk, a.asked)
			l.risks()
			l.k.fix(l)
		}
		l.assureNext(&todo)
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}
