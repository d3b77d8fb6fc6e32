package events

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Hub delivers events to the subscribers of this node. Events are born in Apply,
// so every replica of a log has the same ones, at the same places: a Position is
// the log, the index of the entry, and the event's number within it.
//
// Of each log the last events are kept, so that a subscriber may come back with
// the cursor it had, here or at another replica. If they no longer reach back to
// its cursor it is told that it missed some. So it is with the cursor of another
// cluster, of which this one may have been restored: every cursor begins with a mark.
type Hub struct {
	keep int           // events kept of each log: event_buffer
	Mark wire.Position // of this cluster: of a log that none has, 0

	Mu    sync.Mutex // held for little at a time: Apply waits for it, and event loops do
	Logs  map[uint64]*stream
	subs  listeners
	all   []*tap
	gaps  uint64 // how often events were missed
	moved bool   // some log went on since progress was last told
	round uint64 // how often it was told

	leases map[Peer]bool // nodes that are fed and take frames of leases
	Leases tellers
}

// stream is the recent events of one log.
type stream struct {
	at     wire.Position       // of the last event or entry
	since  wire.Position       // events after this one are all in recent
	old    uint64              // last entry that was in the log when this run of the node began
	past   uint64              // last entry that was in the log when this run began to be fed, committed or not
	fed    uint64              // likewise, told while a replica of the log is begun
	passed bool                // taps were told that some of those up to past were not told
	untold bool                // more of them were not, since then
	recent []recentEvent       // in order
	first  uint64              // number of the first of them, of all events of the log that were told here
	owners map[string][]uint64 // numbers of the events in recent, by owner
	parted bool                // further events of the entry that at is in are to come
	Feeds  []Peer              // of nodes that have no replica of the log and hear of it from here
}

type recentEvent struct {
	at wire.Position
	engine.Event
}

// Tap is called with every event of this node's run, whatever its owner. It must not
// block.
type Tap func(e engine.Event, at wire.Position)

// tap is a Tap, and what tells it that events were missed.
type tap struct {
	event  Tap
	missed func()
}

// New makes a hub that keeps so many events of each log.
func New(keep int) *Hub {
	return &Hub{keep: keep, Logs: make(map[uint64]*stream), subs: newListeners(), leases: make(map[Peer]bool)}
}

// Stream answers a log's stream. It is called under the lock (Mu).
func (h *Hub) Stream(log uint64) *stream {
	s := h.Logs[log]
	if s == nil {
		s = &stream{at: wire.Position{Log: log}, since: wire.Position{Log: log}, owners: make(map[string][]uint64)}
		h.Logs[log] = s
	}
	return s
}

// behind is the ordinal of a place that is behind all events of its entry, however many these
// are: of an entry whose events are not known here.
const behind = 1<<32 - 1

// whole says that a place is not in the middle of an entry's events: it is behind them, or there
// were none.
func whole(p wire.Position) bool { return p.Ordinal == 0 || p.Ordinal == behind }

// done is the last entry whose events were all told.
func (s *stream) done() uint64 {
	if s.parted {
		return s.at.Index - 1
	}
	return s.at.Index
}

// passed says that who stands at a place of a log may have missed something before another one.
func passed(at, before wire.Position) bool {
	return After(before, at) && (at.Index < before.Index || !whole(at))
}

// After orders two places of one log.
func After(a, b wire.Position) bool {
	return a.Index > b.Index || a.Index == b.Index && a.Ordinal > b.Ordinal
}

// Publish takes the events of one entry, or those that it has so far: then it is called again with all of them.
func (h *Hub) Publish(log, index uint64, events []engine.Event, all bool) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s := h.Stream(log)
	if index < s.at.Index || index == s.at.Index && (whole(s.at) || len(events) == 0) {
		return // a new replica on its way to where another node's took us already
	}
	h.moved, s.parted = true, !all
	if len(events) == 0 {
		s.at = wire.Position{Log: log, Index: index}
	}
	for i := range events {
		at := wire.Position{Log: log, Index: index, Ordinal: uint64(i) + 1}
		if !After(at, s.at) {
			continue // it was told before
		}
		h.owed(events[i].Owner, log, index <= s.past)
		s.at = at
		s.remember(recentEvent{at, events[i]}, h.keep)
		h.deliver(&events[i], at)
	}
	if all && len(events) > 0 && len(s.Feeds) > 0 {
		s.tell(log, index, events)
	}
}

// remember keeps an event, and as many before it as are kept.
func (s *stream) remember(e recentEvent, keep int) {
	s.owners[e.Owner] = append(s.owners[e.Owner], s.first+uint64(len(s.recent)))
	if s.recent = append(s.recent, e); len(s.recent) <= keep {
		return
	}
	oldest := &s.recent[0]
	if left := s.owners[oldest.Owner][1:]; len(left) > 0 {
		s.owners[oldest.Owner] = left
	} else {
		delete(s.owners, oldest.Owner)
	}
	s.since = oldest.at
	*oldest = recentEvent{}
	s.recent, s.first = s.recent[1:], s.first+1
}

// of appends an owner's events after a place.
func (s *stream) of(owner string, from wire.Position, dst []recentEvent) []recentEvent {
	own := s.owners[owner]
	i := sort.Search(len(own), func(i int) bool { return After(s.recent[own[i]-s.first].at, from) })
	for _, number := range own[i:] {
		dst = append(dst, s.recent[number-s.first])
	}
	return dst
}

// deliver hands an event on. Those of entries that are as old as an earlier run of
// the node, and are applied again, are for subscribers that go on from a cursor alone:
// nobody is told twice. So are those that were there when a node began to be fed; but somebody
// may have subscribed before they were: who would be told of them has a gap.
func (h *Hub) deliver(e *engine.Event, at wire.Position) {
	s := h.Logs[at.Log]
	old, past := at.Index <= s.old, at.Index <= s.past
	for _, l := range h.subs.by[e.Owner] {
		switch {
		case old && !l.resumes:
		case past && !l.resumes:
			h.passOver(l, at.Log)
		case !l.replays:
			hand(l.sub, e, at)
		case len(l.later) < h.keep:
			l.later = append(l.later, recentEvent{at, *e})
		default:
			l.lost = true
		}
	}
	switch {
	case old:
		return
	case past && s.passed:
		s.untold = true
		return
	case past:
		s.passed, s.untold = true, true
		h.tellTaps(s)
		return
	}
	h.tellTaps(s)
	for _, t := range h.all {
		t.event(*e, at)
	}
}

// passOver tells a listener that it may have missed something in a log: at once, if that is the first of it. Who was
// told has looked, perhaps before what is passed over now came to be: an entry may be taken for the past that was
// not there yet, or not committed. So he is told again, but not with each event: with the next progress, or before
// what comes after the past.
func (h *Hub) passOver(l *listener, log uint64) {
	l.overlooks(log)
	if !slices.Contains(l.past, log) {
		l.past = append(l.past, log)
		h.tellGap(l, h.Cursor())
	}
}

// tellTaps tells taps that something was passed over, if they do not know.
func (h *Hub) tellTaps(s *stream) {
	if !s.untold {
		return
	}
	s.untold = false
	for _, t := range h.all {
		t.missed()
	}
}

// FedFrom says up to which entry there was a log already when this node, which knows nothing of it,
// began to be fed.
func (h *Hub) FedFrom(log, index uint64) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	switch s := h.Stream(log); {
	case s.past == math.MaxUint64:
		s.fed = index
	case s.at.Index == 0 && s.past == 0:
		s.past = index
	}
}

// Joins is called when this node is about to be given a replica of a log. If it was told nothing of that yet, all that
// comes is the past, until since says up to which entry there was a log then; or its feed does, if that is further.
func (h *Hub) Joins(log uint64) (since func(index uint64)) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s := h.Stream(log)
	if s.at.Index != 0 || s.past != 0 {
		return func(uint64) {}
	}
	s.past, s.fed = math.MaxUint64, 0
	return func(index uint64) {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		s.past = max(index, s.fed)
	}
}

// Began says up to which entry a log was there already when this run of the node
// began.
func (h *Hub) Began(log, index uint64) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Stream(log).old = index
}

// hand hands an event to a subscription, if it asked for it.
func hand(sub *wire.Subscription, e *engine.Event, at wire.Position) {
	for _, p := range sub.From {
		if p.Log == at.Log && !After(at, p) {
			return // it was told before, by a node that was further than this one
		}
	}
	kinds := sub.Kinds
	if kinds == 0 {
		kinds = wire.DefaultEvents
	}
	if kinds&(1<<e.Kind) != 0 {
		sub.Sink.Deliver(sub, e.Kind, e.Path, e.Namespace, e.Token, at)
	}
}

// Opened says that a log is applied up to an index, from where its events will be
// seen; what came before is not known, unless another node has told.
func (h *Hub) Opened(log, index uint64) {
	h.Mu.Lock()
	opened := h.open(log, index)
	h.Mu.Unlock()
	if opened {
		h.Leases.missed()
	}
}

// open is opened under the lock. It answers whether events can have been missed.
func (h *Hub) open(log, index uint64) bool {
	s := h.Stream(log)
	if index <= s.at.Index {
		return false
	}
	s.at = wire.Position{Log: log, Index: index, Ordinal: behind}
	s.since, s.recent, s.owners = s.at, nil, make(map[string][]uint64)
	return true
}

// Missed says that the log jumped to an index, over events that are not known.
func (h *Hub) Missed(log, index uint64) {
	h.Mu.Lock()
	opened := h.open(log, index)
	if opened {
		if engine.Planted != engine.PlantNoGap {
			h.gap()
		}
		h.Logs[log].jump(log)
	}
	h.Mu.Unlock()
	if opened {
		h.tellGaps()
		h.Leases.missed()
	}
}

// gap notes that events may have been missed. Subscribers are told before any later event,
// and by tellGaps, which is to be called without the lock.
func (h *Hub) gap() {
	h.gaps++
	for _, t := range h.all {
		t.missed()
	}
}

// Cursor is where every log is now, after the cluster's mark.
func (h *Hub) Cursor() []wire.Position {
	c := append(make([]wire.Position, 0, 1+len(h.Logs)), h.Mark)
	for _, s := range h.Logs {
		c = append(c, s.at)
	}
	slices.SortFunc(c, func(a, b wire.Position) int { return int(a.Log) - int(b.Log) })
	return c
}

// Tap adds a Tap and answers what removes it.
func (h *Hub) Tap(event Tap, missed func()) func() {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	t := &tap{event, missed}
	h.all = append(h.all, t)
	return func() {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.all = slices.DeleteFunc(h.all, func(x *tap) bool { return x == t })
	}
}
