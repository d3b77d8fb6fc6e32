package naive

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Routing changes, as the group sees them that a subtree leaves: section 4 and
// design.md section 4.

// moves says that a routing change at root moves a path: it lies there, and not in
// a namespace of its own that somebody chose within.
func (m *Model) moves(root, ns, path string) bool {
	inside := func(p string) bool { return p == root || above(root, p) || wire.PathHandler(p) == root }
	_, chosen := m.algorithm(ns)
	own := ns != root && chosen && inside(ns)
	return inside(path) && !own
}

// nFrozen is a root that is being moved, and the namespace that it lies in, if it is one.
type nFrozen struct {
	root, above string
	until       uint64
}

// bars says that who knows the routes of a version does not know how the move ends.
func (f nFrozen) bars(version uint64) bool { return f.until == 0 || version < f.until }

// involved says that a namespace gains or loses paths.
func (m *Model) involved(f nFrozen, ns string) bool {
	at := ns
	if wire.PathHandler(ns) == ns {
		at = ns + ":/"
	}
	return ns == f.root || ns != "" && ns == f.above || m.moves(f.root, ns, at)
}

func (m *Model) isFrozen(ns, path string) bool {
	return slices.ContainsFunc(m.frozen, func(f nFrozen) bool { return m.moves(f.root, ns, path) })
}

// overFrozen says that a new lock would be a recursive write above what is being moved.
func (m *Model) overFrozen(alg wire.Algorithm, l wire.LockRequest) bool {
	return l.Mode == wire.ModeWrite && alg.Recursive() &&
		slices.ContainsFunc(m.frozen, func(f nFrozen) bool { return above(l.Path, f.root) })
}

// movedAway says that a request is about a namespace that is being moved, or was resolved
// before a move that the group knows of: who asked asks again later, or elsewhere.
func (m *Model) movedAway(cmd *engine.Command) (res wire.Result, moved bool) {
	named := slices.ContainsFunc(cmd.Req.Domains, func(d string) bool { return !bare(d) })
	switch op := cmd.Req.Op; {
	case op == wire.OpAcquire || op == wire.OpRelease:
		return m.needs(cmd, cmd.Version < m.version, []string{cmd.NS})
	case (op == wire.OpRenew || op == wire.OpReleaseAll) && named:
		var spaces []string
		if op == wire.OpReleaseAll && strings.Contains(cmd.Req.Key, "\x00") { // a part of a claimed one
			spaces = slices.DeleteFunc(slices.Clone(cmd.Req.Domains), bare)
		}
		return m.needs(cmd, cmd.Version < m.version, spaces)
	}
	return res, false
}

// bare says that a domain is a handler, with its colon.
func bare(domain string) bool { return strings.Index(domain, ":")+1 == len(domain) }

// lostAway says that a renewal found nothing where something is being moved.
func (m *Model) lostAway(cmd *engine.Command, found *wire.Result) (res wire.Result, moved bool) {
	if cmd.Req.Op != wire.OpRenew || found.Code != wire.OK || found.Status != wire.RenewLost {
		return res, false
	}
	return m.needs(cmd, false, cmd.Req.Domains)
}

// needs says which routes a request must be resolved with, if those that it was are too old
// for the group or for what is done with one of the namespaces.
func (m *Model) needs(cmd *engine.Command, moved bool, spaces []string) (wire.Result, bool) {
	need := m.version
	for _, f := range m.frozen {
		if f.bars(cmd.Version) && slices.ContainsFunc(spaces, func(ns string) bool { return m.involved(f, ns) }) {
			moved, need = true, max(need, f.until)
		}
	}
	return wire.Result{Code: wire.Unavailable, Position: engine.Moved, Count: need}, moved
}

// freeze is refused while there is a live lock inside or a recursive write above.
// Which of them is named is open.
func (m *Model) freeze(cmd *engine.Command) wire.Result {
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
	m.frozen = slices.DeleteFunc(m.frozen, func(f nFrozen) bool { return f.root == root })
	m.frozen = append(m.frozen, nFrozen{root, cmd.NS, cmd.Req.Target})
	return wire.Result{Token: m.counter}
}

// leave removes who waits inside, and tells each owner once.
func (m *Model) leave(root string) {
	var told []string
	for _, w := range slices.Clone(m.waiters) {
		first := ""
		for _, l := range wishes(w.locks) {
			if m.moves(root, w.ns, l.Path) && (first == "" || l.Path < first) {
				first = l.Path
			}
		}
		if first == "" {
			continue
		}
		if !slices.Contains(told, w.owner) {
			told = append(told, w.owner)
			m.events = append(m.events, engine.Event{Kind: wire.EventKilled, Owner: w.owner, Path: first,
				Namespace: w.ns})
		}
		m.end(w.seq, wire.Result{Code: wire.Aborted})
	}
	m.thaw(root)
}

func (m *Model) thaw(root string) {
	for _, f := range m.frozen {
		if f.root == root {
			m.version = max(m.version, f.until)
		}
	}
	m.frozen = slices.DeleteFunc(m.frozen, func(f nFrozen) bool { return f.root == root })
}
