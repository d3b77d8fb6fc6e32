package events

import (
	"cmp"
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// listeners is the subscriptions of a node. All that is done for one event, and to come and
// go, costs what it touches, however many there are; what is told to all of them is told to
// some at a time (each), and the hub's lock let go in between.
type listeners struct {
	of  map[*wire.Subscription]*listener
	by  map[string][]*listener // by owner
	all []*listener
	// connections that share what is told to all
	conns map[wire.ProgressSink]*shared
}

// listener is one subscription.
type listener struct {
	sub  *wire.Subscription
	conn *shared  // nil when its sink is its own
	slot int      // in listeners.all
	own  int      // in listeners.by
	gaps uint64   // as many of the hub's as it was told of
	past []uint64 // logs of whose past it was told of a gap
	over []uint64 // logs of whose past it was told nothing since the last gap, though there was something

	resumes bool          // it began with a cursor
	replays bool          // what came before is being told to it, without the lock
	later   []recentEvent // that it is to be told after that
	lost    bool          // they were too many, or there is a gap before them
}

// shared is a connection with subscriptions.
//
// Progress counts for all subscriptions of a connection. So it is told only when each of them
// knows of every gap and was told what it asked to have again: who came back with that cursor
// would never hear of it.
type shared struct {
	subs    int
	replays int    // of them, to which what came before is being told
	gap     uint64 // the last of the hub's that one of them was told of
	told    int    // how many were
	over    int    // of them, to which something was not told of which they are to have a gap
	round   uint64 // in which it was told progress
}

// ready says that the connection may be told progress.
func (c *shared) ready(gaps uint64) bool {
	return c.replays == 0 && c.over == 0 && c.gap == gaps && c.told == c.subs
}

// overlooks takes note that something of a log's past is not told to a listener.
func (l *listener) overlooks(log uint64) {
	if slices.Contains(l.over, log) {
		return
	}
	if l.conn != nil && len(l.over) == 0 {
		l.conn.over++
	}
	l.over = append(l.over, log)
}

// knows takes note that a listener was told of so many gaps, and so of all that was passed over.
func (l *listener) knows(gaps uint64) {
	if c := l.conn; c != nil {
		if len(l.over) > 0 {
			c.over--
		}
		if l.gaps == c.gap {
			c.told--
		}
		if gaps > c.gap {
			c.gap, c.told = gaps, 0
		}
		if gaps == c.gap {
			c.told++
		}
	}
	l.gaps, l.over = gaps, nil
}

// forgets takes note that it is to be told of the last gap again.
func (l *listener) forgets(gaps uint64) {
	if c := l.conn; c != nil && l.gaps == c.gap {
		c.told--
	}
	l.gaps = gaps - 1
}

// replaying takes note that what came before is being told to a listener, or is no more.
func (l *listener) replaying(is bool) {
	if l.conn != nil && is != l.replays {
		if is {
			l.conn.replays++
		} else {
			l.conn.replays--
		}
	}
	l.replays = is
}

func newListeners() listeners {
	return listeners{
		of: make(map[*wire.Subscription]*listener), by: make(map[string][]*listener),
		conns: make(map[wire.ProgressSink]*shared),
	}
}

func (s *listeners) add(sub *wire.Subscription, gaps uint64) *listener {
	own := s.by[sub.Owner]
	l := &listener{sub: sub, slot: len(s.all), own: len(own), gaps: gaps}
	if sub.Conn != nil {
		c := s.conns[sub.Conn]
		if c == nil {
			c = &shared{gap: gaps}
			s.conns[sub.Conn] = c
		}
		if c.subs++; gaps > c.gap {
			c.gap, c.told = gaps, 0
		}
		c.told++ // there is no later gap than those that it begins behind
		l.conn = c
	}
	s.of[sub], s.all, s.by[sub.Owner] = l, append(s.all, l), append(own, l)
	return l
}

func (s *listeners) remove(sub *wire.Subscription) {
	l := s.of[sub]
	if l == nil {
		return
	}
	delete(s.of, sub)
	last := len(s.all) - 1
	s.all[l.slot] = s.all[last]
	s.all[l.slot].slot = l.slot
	s.all[last] = nil
	s.all = s.all[:last]
	own := s.by[sub.Owner]
	last = len(own) - 1
	own[l.own] = own[last]
	own[l.own].own = l.own
	own[last] = nil
	if s.by[sub.Owner] = own[:last]; last == 0 {
		delete(s.by, sub.Owner)
	}
	if l.conn == nil {
		return
	}
	l.replaying(false)
	if l.gaps == l.conn.gap {
		l.conn.told--
	}
	if len(l.over) > 0 {
		l.conn.over--
	}
	if l.conn.subs--; l.conn.subs == 0 {
		delete(s.conns, sub.Conn)
	}
	l.conn = nil
}

// atOnce is how many listeners are told something under one hold of the hub's lock.
const atOnce = 128

// each calls f with every listener, some at a time under the lock, and where every log is
// then. Who comes in the meantime may be passed over. It goes from the last to the first: whoever takes the
// place of one who goes in the meantime was told already, or has come since.
func (h *Hub) each(f func(l *listener, cursor []wire.Position)) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for left := len(h.subs.all); left > 0; left = min(left, len(h.subs.all)) {
		to, cursor := max(0, left-atOnce), h.Cursor()
		for _, l := range h.subs.all[to:left] {
			f(l, cursor)
		}
		left = to
		h.Mu.Unlock()
		h.Mu.Lock()
	}
}

// tellGap tells a listener of the gap that it was not told of yet.
func (h *Hub) tellGap(l *listener, cursor []wire.Position) {
	if (l.gaps != h.gaps || len(l.over) > 0) && !l.replays {
		l.knows(h.gaps)
		l.sub.Sink.Gap(l.sub, cursor)
	}
}

// tellGaps tells everybody.
func (h *Hub) tellGaps() { h.each(h.tellGap) }

// owed tells who is about to be told of an event what it has to know before. To whom what came
// before is being told still, hears of the gap after that, and of nothing else that came since. What was
// passed over in a log is owed before what comes after its past, as the place of that is behind it, and not
// before each event of another log.
func (h *Hub) owed(owner string, log uint64, past bool) {
	for _, l := range h.subs.by[owner] {
		switch {
		case l.gaps == h.gaps && (past || !slices.Contains(l.over, log)):
		case l.replays:
			l.lost = true
		default:
			h.tellGap(l, h.Cursor())
		}
	}
}

// Subscribe adds a subscription and answers where it starts. Events that it asks
// to have again are delivered before any new one, and before subscribe returns.
func (h *Hub) Subscribe(sub *wire.Subscription) []wire.Position {
	h.Mu.Lock()
	from := h.Cursor()
	l := h.subs.add(sub, h.gaps)
	if sub.From == nil {
		h.Mu.Unlock()
		return from
	}
	since := make(map[uint64]wire.Position, len(sub.From))
	for _, p := range sub.From {
		since[p.Log] = p
	}
	gap := since[h.Mark.Log] != h.Mark
	if gap {
		sub.From = nil
	}
	l.resumes = !gap
	l.replaying(true) // what happens from here on is kept for it
	h.Mu.Unlock()
	var again []recentEvent
	if !gap {
		again, gap = h.replay(sub.Owner, since, from)
	}
	if gap {
		sub.Sink.Gap(sub, from)
	}
	for more := true; more; again, more = h.caughtUp(l) {
		for i := range again {
			hand(sub, &again[i].Event, again[i].at)
		}
	}
	return from
}

// replay answers an owner's events from after some places to others, and whether some of them are not known any more. A
// log that has none to begin after is taken from its beginning. It looks through one log at a time: Apply waits for
// each.
func (h *Hub) replay(owner string, since map[uint64]wire.Position,
	until []wire.Position) (again []recentEvent, gap bool) {
	for _, to := range until {
		h.Mu.Lock()
		if s, p := h.Logs[to.Log], since[to.Log]; s != nil {
			gap = gap || passed(p, s.since) || p.Index > to.Index
			again = s.of(owner, p, again)
		}
		h.Mu.Unlock()
		for n := len(again); n > 0 && again[n-1].at.Log == to.Log && After(again[n-1].at, to); n-- {
			again = again[:n-1] // it came meanwhile, and is kept for the listener
		}
	}
	return again, gap
}

// caughtUp answers what happened while a listener was told what happened before. When that
// is nothing it is one like all others.
func (h *Hub) caughtUp(l *listener) (again []recentEvent, more bool) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if l.lost {
		l.later, l.lost = nil, false
		l.forgets(h.gaps)
	}
	if again, l.later = l.later, nil; len(again) == 0 {
		l.replaying(false)
		l.sub.From = h.ahead(l.sub.From)
		h.tellGap(l, h.Cursor())
	}
	return again, l.replays
}

// ahead answers what is left of a cursor to look at once what came before was told: where this
// node is not as far yet as the one that told it.
func (h *Hub) ahead(cursor []wire.Position) (left []wire.Position) {
	for _, p := range cursor {
		if s := h.Logs[p.Log]; p == h.Mark || s != nil && !After(p, s.at) {
			continue
		}
		left = append(left, p)
	}
	slices.SortFunc(left, func(a, b wire.Position) int { // of each log the last place counts, which is to come first
		return cmp.Or(cmp.Compare(a.Log, b.Log), cmp.Compare(b.Index, a.Index), cmp.Compare(b.Ordinal, a.Ordinal))
	})
	return slices.Clone(slices.CompactFunc(left, func(a, b wire.Position) bool { return a.Log == b.Log }))
}

// Unsubscribe ends a subscription.
func (h *Hub) Unsubscribe(sub *wire.Subscription) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.subs.remove(sub)
}

// Progress tells the whole cursor, if it moved: each connection once, and every
// subscription that shares none.
func (h *Hub) Progress() {
	h.Mu.Lock()
	moved := h.moved
	if h.moved = false; moved {
		for _, s := range h.Logs {
			h.tellTaps(s)
		}
		h.TellProgress()
		h.round++
	}
	round := h.round
	h.Mu.Unlock()
	if !moved {
		return
	}
	h.each(func(l *listener, cursor []wire.Position) {
		switch h.tellGap(l, cursor); {
		case l.replays:
		case l.conn == nil:
			l.sub.Sink.Progress(l.sub, cursor)
		case l.conn.round == round:
		case !l.conn.ready(h.gaps):
			h.moved = true // it is told the next time, if not by the last of its subscriptions
		default:
			l.conn.round = round
			l.sub.Conn.Progress(cursor)
		}
	})
}
