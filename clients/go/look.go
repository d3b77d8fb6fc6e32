package pathlockd

import (
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// A renewal says that the owner has a lease in the namespace, and not that this is still
// the lease that all its locks were taken under. If that ended, killed say, and the owner
// took something since, by another client maybe, it is another one, in which the earlier
// locks are not. So the server is asked what the owner holds:
//
//   - when a lock has come to a lease;
//   - when the owner was killed, or may have been: events were missed;
//   - of an owner that the program names, when its events begin to be told, and at each
//     renewal while they are not.
//
// Until that is told no renewal counts, and until one was sent and answered after it, what
// had come lasts no longer than by the request that took it.

// look is such a question. Who holds more than fits into an answer is told page by page: what
// is held all the time is on one of them.
type look struct {
	l    *lease
	upTo int                          // number of the last lock that it is about: a later one may have missed it
	held map[wire.ReleaseRequest]bool // told so far: a path and its mode
}

// look asks what the owner holds in the namespace.
func (l *lease) look(todo *chores) {
	l.doubt, l.looking, l.stale, l.lookAgain, l.told = false, true, false, false, false
	q := &look{l: l, upTo: l.joined, held: make(map[wire.ReleaseRequest]bool)}
	q.ask(nil, todo)
}

// ask asks for what comes after a cursor.
func (q *look) ask(after []byte, todo *chores) {
	c := newCall(q)
	c.set(&wire.Request{
		Op: wire.OpListLocks, Owner: q.l.name.owner, Domains: q.l.domains[:], Cursor: after, Page: q.l.page,
	})
	c.urgent = true
	todo.calls = append(todo.calls, c)
}

// land implements receiver.
func (q *look) land(c *call, r *reply) {
	res := &r.scratch
	err := r.decode(c, res)
	c.free()
	var told wire.List
	if err == nil {
		told = *list(res)
	}
	for _, info := range told.Infos {
		q.held[wire.ReleaseRequest{Path: strings.Clone(info.Path), Mode: info.Mode}] = true
	}
	l := q.l
	var todo chores
	l.k.mu.Lock()
	if l.place >= 0 {
		switch {
		case codeOf(err) == wire.ResourceExhausted && l.page == 0:
			l.page = wire.MaxDumpPage
			q.ask(nil, &todo)
		case err != nil:
			l.lookAgain = true
			l.failed(err)
		case l.stale:
			l.lookAgain, l.renewAt = true, l.k.c.now()
		case !res.Done && len(told.Cursor) > 0:
			q.ask(told.Cursor, &todo)
		default:
			l.looking, l.told = false, true
			l.seen(q.held, q.upTo, &todo)
		}
		if l.place >= 0 {
			l.k.fix(l)
		}
	}
	l.k.mu.Unlock()
	todo.do(l.k.c)
}

// suspect takes note that the lease may be another one than its locks were taken under. What
// is asked of that already may have been answered before.
func (l *lease) suspect() { l.doubt, l.stale, l.told = true, true, false }

// seen takes note of what the owner holds: of the locks that were asked for, those that
// are not among it are lost.
func (l *lease) seen(held map[wire.ReleaseRequest]bool, upTo int, todo *chores) {
	var gone []*Lock
	for _, lk := range l.locks {
		if path, missing := lk.missing(held); missing && lk.number <= upTo {
			lk.ends(&LostError{Path: path, Cause: ErrExpired}, todo)
			gone = append(gone, lk)
		}
	}
	for _, lk := range gone {
		l.part(lk)
	}
	if len(l.locks) == 0 {
		l.forget(todo)
		return
	}
	l.looked, l.renewAt = upTo, l.k.c.now()
	l.turns++
}

// newcomers works out until when those locks are sure of which no renewal says anything.
func (l *lease) newcomers() {
	l.fresh = 0
	for _, lk := range l.locks {
		if lk.number > l.known && (l.fresh == 0 || lk.sure < l.fresh) {
			l.fresh = lk.sure
		}
	}
}

// missing answers a path of the lock that is not held.
func (l *Lock) missing(held map[wire.ReleaseRequest]bool) (path string, missing bool) {
	for _, p := range l.paths {
		if !held[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}] {
			return p.Path, true
		}
	}
	return "", false
}
