package engine_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Routing changes, as the group sees them that a subtree leaves: section 4 and
// design.md section 4.

// moves says that a routing change at root moves a path: it lies there, and not in
// a namespace of its own that somebody chose within.
func (m *naive) moves(root, ns, path string) bool {
	inside := func(p string) bool { return p == root || above(root, p) || wire.PathHandler(p) == root }
	_, chosen := m.algorithm(ns)
	own := ns != root && chosen && inside(ns)
	return inside(path) && !own
}

func (m *naive) isFrozen(ns, path string) bool {
	return slices.ContainsFunc(m.frozen, func(root string) bool { return m.moves(root, ns, path) })
}

// overFrozen says that a new lock would be a recursive write above what is being moved.
func (m *naive) overFrozen(alg wire.Algorithm, l wire.LockRequest) bool {
	return l.Mode == wire.ModeWrite && alg.Recursive() &&
		slices.ContainsFunc(m.frozen, func(root string) bool { return above(l.Path, root) })
}

// movedAway says that a request names a path that is being moved: who asked asks
// again later, or elsewhere.
func (m *naive) movedAway(cmd *engine.Command) bool {
	if cmd.Req.Op != wire.OpAcquire && cmd.Req.Op != wire.OpRelease {
		return false
	}
	alg, _ := m.algorithm(cmd.NS)
	return slices.ContainsFunc(cmd.Req.Locks, func(l wire.LockRequest) bool {
		return m.isFrozen(cmd.NS, l.Path) || l.State == wire.StateNew && m.overFrozen(alg, l)
	}) ||
		slices.ContainsFunc(cmd.Req.Releases, func(r wire.ReleaseRequest) bool { return m.isFrozen(cmd.NS, r.Path) })
}

// freeze is refused while there is a live lock inside or a recursive write above.
// Which of them is named is open.
func (m *naive) freeze(cmd *engine.Command) wire.Result {
	root := cmd.Req.Namespace
	for _, h := range m.holds {
		writes := h.mode == wire.ModeWrite && h.alg.Recursive()
		in := m.moves(root, h.ns, h.path) || h.ns == cmd.NS && writes && above(h.path, root)
		if in && m.live(h.owner, h.ns) {
			m.paths = append(m.paths, h.path)
		}
	}
	if len(m.paths) > 0 {
		return wire.Result{Status: wire.StatusConflict, Path: m.paths[0]}
	}
	m.frozen = append(m.frozen, root)
	return wire.Result{Token: m.counter}
}

// leave removes who waits inside, and tells each owner once.
func (m *naive) leave(root string) {
	var told []string
	for _, w := range slices.Clone(m.waiters) {
		if !slices.ContainsFunc(wishes(w.locks), func(l wire.LockRequest) bool { return m.moves(root, w.ns, l.Path) }) {
			continue
		}
		if !slices.Contains(told, w.owner) {
			told = append(told, w.owner)
			m.events = append(m.events, engine.Event{Kind: wire.EventKilled, Owner: w.owner, Namespace: w.ns})
		}
		m.end(w.seq, wire.Result{Code: wire.Aborted})
	}
	m.thaw(root)
}

func (m *naive) thaw(root string) {
	m.frozen = slices.DeleteFunc(m.frozen, func(r string) bool { return r == root })
}

// drawMove begins a routing change, or ends the one that is going on.
func (m *machine) drawMove(t *rapid.T) *ask {
	attempt := m.model.attempt + pick[uint64](t, "attempt", 0, 0, 1)
	if m.model.attempt > 0 && pick(t, "late", false, false, false, true) {
		attempt = m.model.attempt - 1
	}
	if len(m.model.frozen) > 0 {
		return newAsk(&wire.Request{
			Op: pick(t, "end", wire.OpThaw, wire.OpThaw, wire.OpLeave), Namespace: m.model.frozen[0], Attempt: attempt,
		}, "")
	}
	root := pick(t, "root", "h:/a/b", "h:/a", "h:/a/d", "h", "g", "h:/b")
	return newAsk(&wire.Request{Op: wire.OpFreeze, Namespace: root, Attempt: attempt}, pick(t, "above", "h:/a", "g", ""))
}
