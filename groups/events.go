package groups

import (
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// hub delivers events to the subscribers of this node. Events are born in Apply,
// so every replica of a log has the same ones, at the same places: a Position is
// the log, the index of the entry, and the event's number within it.
//
// Of each log the last events are kept, so that a subscriber may come back with
// the cursor it had, here or at another replica. If they no longer reach back to
// its cursor it is told that it missed some. So it is with the cursor of another
// cluster, of which this one may have been restored: every cursor begins with a mark.
type hub struct {
	keep int           // events kept of each log: event_buffer
	mark wire.Position // of this cluster: of a log that none has, 0

	mu   sync.Mutex
	logs map[uint64]*stream
	subs map[string][]*wire.Subscription // by owner
	all  []*tap

	moved bool // some log went on since progress was last told
}

// stream is the recent events of one log.
type stream struct {
	at     wire.Position // of the last event or entry
	since  wire.Position // events after this one are all in recent
	old    uint64        // last entry that was in the log when this run of the node began
	recent []recentEvent // in order
	feeds  []*mesh.Conn  // of nodes that have no replica of the log and hear of it from here
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

func newHub(keep int) *hub {
	return &hub{keep: keep, logs: make(map[uint64]*stream), subs: make(map[string][]*wire.Subscription)}
}

// stream answers a log's stream.
func (h *hub) stream(log uint64) *stream {
	s := h.logs[log]
	if s == nil {
		s = &stream{at: wire.Position{Log: log}, since: wire.Position{Log: log}}
		h.logs[log] = s
	}
	return s
}

// after orders two places of one log.
func after(a, b wire.Position) bool {
	return a.Index > b.Index || a.Index == b.Index && a.Ordinal > b.Ordinal
}

// publish takes the events of one entry.
func (h *hub) publish(log, index uint64, events []engine.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(log)
	if index <= s.at.Index {
		return // a new replica on its way to where another node's took us already
	}
	s.at = wire.Position{Log: log, Index: index}
	h.moved = true
	for i := range events {
		at := wire.Position{Log: log, Index: index, Ordinal: uint64(i) + 1}
		s.at = at
		s.recent = append(s.recent, recentEvent{at, events[i]})
		h.deliver(&events[i], at)
	}
	if len(events) > 0 && len(s.feeds) > 0 {
		s.tell(log, index, events)
	}
	if len(s.recent) > 2*h.keep {
		drop := len(s.recent) - h.keep
		s.since = s.recent[drop-1].at
		s.recent = slices.Clone(s.recent[drop:])
	}
}

// deliver hands an event on. Those of entries that are as old as an earlier run of
// the node, and are applied again, are for subscribers that go on from a cursor alone:
// nobody is told twice.
func (h *hub) deliver(e *engine.Event, at wire.Position) {
	old := at.Index <= h.logs[at.Log].old
	for _, sub := range h.subs[e.Owner] {
		if !old || sub.From != nil {
			h.hand(sub, e, at)
		}
	}
	if old {
		return
	}
	for _, t := range h.all {
		t.event(*e, at)
	}
}

// began says up to which entry a log was there already when this run of the node
// began.
func (h *hub) began(log, index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stream(log).old = index
}

func (h *hub) hand(sub *wire.Subscription, e *engine.Event, at wire.Position) {
	for _, p := range sub.From {
		if p.Log == at.Log && !after(at, p) {
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

// opened says that a log is applied up to an index, from where its events will be
// seen; what came before is not known, unless another node has told.
func (h *hub) opened(log, index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open(log, index)
}

// open is opened under the lock. It answers whether events can have been missed.
func (h *hub) open(log, index uint64) bool {
	s := h.stream(log)
	if index <= s.at.Index {
		return false
	}
	s.at = wire.Position{Log: log, Index: index}
	s.since, s.recent = s.at, nil
	return true
}

// missed says that the log jumped to an index, over events that are not known.
func (h *hub) missed(log, index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open(log, index) {
		h.gap()
		h.logs[log].jump(log)
	}
}

// gap tells everybody that events may have been missed.
func (h *hub) gap() {
	for _, subs := range h.subs {
		for _, sub := range subs {
			sub.Sink.Gap(sub, h.cursor())
		}
	}
	for _, t := range h.all {
		t.missed()
	}
}

// cursor is where every log is now, after the cluster's mark.
func (h *hub) cursor() []wire.Position {
	c := append(make([]wire.Position, 0, 1+len(h.logs)), h.mark)
	for _, s := range h.logs {
		c = append(c, s.at)
	}
	slices.SortFunc(c, func(a, b wire.Position) int { return int(a.Log) - int(b.Log) })
	return c
}

// subscribe adds a subscription and answers where it starts. Events that it asks
// to have again are delivered before any new one.
func (h *hub) subscribe(sub *wire.Subscription) []wire.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.cursor()
	if sub.From != nil {
		h.replay(sub)
	}
	h.subs[sub.Owner] = append(h.subs[sub.Owner], sub)
	return from
}

// replay delivers what came after the subscription's cursor; first, if some of
// that is not known any more, that there is a gap. A log that the cursor does not
// name is taken from its beginning. Who comes with the cursor of another cluster is
// told of a gap, and what happens from now on.
func (h *hub) replay(sub *wire.Subscription) {
	from := make(map[uint64]wire.Position, len(sub.From))
	for _, p := range sub.From {
		from[p.Log] = p
	}
	if from[h.mark.Log] != h.mark {
		sub.From = nil
		sub.Sink.Gap(sub, h.cursor())
		return
	}
	gap := false
	for log, s := range h.logs {
		p := from[log]
		gap = gap || after(s.since, p) || after(p, s.at)
	}
	if gap {
		sub.Sink.Gap(sub, h.cursor())
	}
	for log, s := range h.logs {
		for i := range s.recent {
			if e := &s.recent[i]; e.Owner == sub.Owner && after(e.at, from[log]) {
				h.hand(sub, &e.Event, e.at)
			}
		}
	}
}

// unsubscribe ends a subscription.
func (h *hub) unsubscribe(sub *wire.Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.subs[sub.Owner], func(s *wire.Subscription) bool { return s == sub })
	if len(left) == 0 {
		delete(h.subs, sub.Owner)
	} else {
		h.subs[sub.Owner] = left
	}
}

// progress tells every subscription the whole cursor, if it moved.
func (h *hub) progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.moved {
		return
	}
	h.moved = false
	h.tellProgress()
	c := h.cursor()
	for _, subs := range h.subs {
		for _, sub := range subs {
			sub.Sink.Progress(sub, c)
		}
	}
}

// tap adds a Tap and answers what removes it.
func (h *hub) tap(event Tap, missed func()) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &tap{event, missed}
	h.all = append(h.all, t)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = slices.DeleteFunc(h.all, func(x *tap) bool { return x == t })
	}
}
