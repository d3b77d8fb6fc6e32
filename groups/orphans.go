package groups

import (
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// The call of a waiting acquire is attached at the node that leads its log: that is where
// the grant is told from. When a node begins a leader epoch it does not know which of the waits
// that it finds still have a caller. Those that were forwarded come again on their own,
// and so do clients whose node is gone; what nobody has asked for again after
// reattachGrace is ended. Waits of calls that ended with their process are ended at once
// (processes.go). But a node that is cut off cannot ask, and its clients may not
// know: while one that may have the caller is not reached, the wait keeps its place
// (cluster.cutOff), until its own time is over.

// orphansEvery is how often the node looks for waits that nobody asks for.
const orphansEvery = time.Second

// leftAtOnce is how many of them are noted at a time: the log's entries wait for who notes them.
const leftAtOnce = 1000

// orphan is a wait that may have no caller.
type orphan struct {
	l      *shardLog
	group  uint16
	caller engine.Caller
	epoch  uint64 // of the connection that it was last asked on
	term   uint64 // of the leader epoch in which that was found out
	due    time.Duration
	host   string // of the node that had its caller, "" if that is not known
}

// orphanage is the waits that may have no caller. There are at most as many as waits in
// the queues.
type orphanage struct {
	mu   sync.Mutex
	list []orphan
	at   map[orphaned]int // where in list
}

// orphaned names a wait.
type orphaned struct {
	group  uint16
	caller engine.Caller
}

// add notes a wait, in place of what was noted of it before. Called under the lock.
func (h *orphanage) add(o orphan) {
	name := orphaned{o.group, o.caller}
	if i, ok := h.at[name]; ok {
		h.list[i] = o
		return
	}
	if h.at == nil {
		h.at = make(map[orphaned]int)
	}
	h.at[name] = len(h.list)
	h.list = append(h.list, o)
}

// keep lets go of all others than those that are. Called under the lock.
func (h *orphanage) keep(are func(*orphan) bool) {
	kept := h.list[:0]
	clear(h.at)
	for i := range h.list {
		if o := h.list[i]; are(&o) {
			h.at[orphaned{o.group, o.caller}] = len(kept)
			kept = append(kept, o)
		}
	}
	clear(h.list[len(kept):])
	h.list = kept
}

// leftAlone takes note that calls of a peer are gone, and not their waits.
func (n *Node) leftAlone(parts ...*part) {
	over := make(map[*shardLog][]orphan)
	f := &n.forwards.left
	for some := range slices.Chunk(parts, leftAtOnce) {
		f.mu.Lock() // who gets to know that a process is over looks here after that
		for _, p := range some {
			o := orphan{
				l: p.log, group: p.Group, caller: p.caller(), epoch: p.Session.Epoch, term: p.term,
				due: n.clock.Mono() + reattachGrace, host: p.from.host,
			}
			if n.processes.over(o.caller.Session) {
				over[o.l] = append(over[o.l], o)
			} else {
				f.add(o)
			}
		}
		f.mu.Unlock()
	}
	for _, l := range n.ordered() {
		n.endOver(l, over[l])
	}
}

// orphanLoop ends waits that nobody asks for.
func (n *Node) orphanLoop() {
	seen := make(map[uint64]uint64) // by log: the leader epoch whose waits were listed
	n.every(orphansEvery, func() {
		if n.draining.Load() {
			return
		}
		for _, shard := range n.id.Logs() {
			l := n.logs[shard]
			if term := l.held.Load(); l.leads() && seen[shard] != term {
				seen[shard] = term
				n.inherit(l, term)
			}
		}
		n.endOrphans()
	})
}

// inherit lists the waits that a new leader finds in a log.
func (n *Node) inherit(l *shardLog, term uint64) {
	m := l.local.Load()
	if m == nil {
		return
	}
	m.Lock()
	open := m.OpenCalls(term)
	m.Unlock()
	found := n.orphansIn(l, open, func(engine.Session) bool { return true })
	f := &n.forwards.left
	for some := range slices.Chunk(found, leftAtOnce) {
		f.mu.Lock()
		for _, o := range some {
			f.add(o)
		}
		f.mu.Unlock()
	}
}

// found is a wait that was found in a log under a leader epoch.
func (n *Node) found(l *shardLog, group uint16, c engine.OpenCall, term uint64) orphan {
	return orphan{
		l: l, group: group, caller: c.Caller, epoch: c.Epoch, term: term,
		due: n.clock.Mono() + reattachGrace, host: n.processes.host(c.Session),
	}
}

// those lists the waits that are.
func (h *orphanage) those(are func(*orphan) bool) (out []orphan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.list {
		if are(&h.list[i]) {
			out = append(out, h.list[i])
		}
	}
	return out
}

// endOrphans ends the waits whose time to be asked for again is over.
func (n *Node) endOrphans() {
	now := n.clock.Mono()
	f := &n.forwards.left
	f.mu.Lock()
	any := slices.ContainsFunc(f.list, func(o orphan) bool { return o.due <= now })
	f.mu.Unlock()
	if !any {
		return
	}
	cutOff := n.cutOff()
	var due []orphan
	f.mu.Lock()
	f.keep(func(o *orphan) bool {
		away := o.host == "" && len(cutOff) > 0 || cutOff[o.host]
		switch waits := away && !n.processes.over(o.caller.Session); {
		case o.l.held.Load() != o.term: // it is another leader's now
			return false
		case o.due > now || waits:
			return true
		}
		due = append(due, *o)
		return false
	})
	f.mu.Unlock()
	for _, o := range due {
		if o.l.leads() && o.l.held.Load() == o.term && !o.adrift() {
			n.endOrphan(o)
		}
	}
}

// adrift says that the log knows that the connection of the wait ended: its node does not ask for it any more,
// and it ends with its grace.
func (o *orphan) adrift() bool {
	m := o.l.local.Load()
	if m == nil {
		return false
	}
	return m.Adrift(o.group, o.caller)
}

// endOrphan ends a wait, unless somebody has asked for it. That nobody has is true of this leader epoch
// alone: under a later one it may have been asked for, on the same connection too. So the end is
// not proposed beyond it, nor passed on, and what was not heard of it is looked at anew.
func (n *Node) endOrphan(o orphan) {
	n.pushEnd(n.orphanEnd(o, 0))
}

// orphanEnd is the command for that, with a grace in ms.
func (n *Node) orphanEnd(o orphan, grace uint64) (wait, *part) {
	w := wait{group: o.group, session: &wire.Session{ID: o.caller.Session, Epoch: o.epoch}, id: o.caller.ID,
		grace: grace}
	p := n.ending(w)
	p.term = o.term
	p.done = func(_ *part, res *wire.Result) {
		if unheard(res) {
			f := &n.forwards.left
			f.mu.Lock()
			defer f.mu.Unlock()
			if _, known := f.at[orphaned{o.group, o.caller}]; !known { // that is newer
				f.add(o)
			}
		}
	}
	return w, p
}

// cutOff is the nodes, by raft host id, that may have callers which they cannot tell of:
// this one does not reach them, or has not for reattachGrace.
func (n *Node) cutOff() map[string]bool {
	switch s := n.cfg.seams; {
	case s != nil:
		return s.cutOff()
	case n.cluster == nil:
		return nil
	}
	return n.cluster.cutOff()
}
