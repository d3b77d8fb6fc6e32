package events

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// What nodes say to each other of events. A node that has no replica of a log is fed by one that has.
//
//	feed   = 8 log index ordinal leases?  feed me from there; and I take frames of leases (tells.go)
//	events = 9 log index flags [owner kind path namespace token]…
//	end    = 10 log                       I have no replica of it, or no longer; or, from
//	                                      who is fed: I do not need it any more
const (
	FrameFeed byte = iota + 8
	FrameEvents
	FrameFeedEnd
)

// Flags of events.
const (
	jumped = 1 << iota // those up to the index are not known
	silent             // the log has had no leader for so long that there may be more
	past               // what comes up to the index was before the feed began
)

// maxCaughtUp bounds what is sent at once to who begins to be fed. If there is more to
// tell, it is told that it missed that.
const maxCaughtUp = mesh.MaxFrameBytes

// Peer is another node, as who feeds it knows it: Send does not block, and reports whether the frame is on its way.
type Peer interface{ Send(frame []byte) bool }

// EventsFrame takes events that another node tells.
func (h *Hub) EventsFrame(shard uint64, r *codec.Reader) {
	index, flags := r.Uvarint(), r.Uvarint()
	var events []engine.Event
	for len(r.Buf) > 0 && r.Err == nil {
		events = append(events, engine.Event{
			Owner: r.Text(), Kind: wire.EventKind(r.Byte()), Path: r.Text(), Namespace: r.Text(), Token: r.Varint(),
		})
	}
	if r.Err != nil {
		return
	}
	switch {
	case flags&jumped != 0:
		h.Missed(shard, index)
	case flags&silent != 0:
		h.gapped()
	case flags&past != 0:
		h.FedFrom(shard, index)
	default:
		h.Publish(shard, index, events, true)
	}
}

// Where answers how far a log's events are known.
func (h *Hub) Where(log uint64) wire.Position {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Stream(log).at
}

// Feed begins to feed a node, after a place.
func (h *Hub) Feed(conn Peer, from wire.Position) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s := h.Stream(from.Log)
	s.Feeds = slices.DeleteFunc(s.Feeds, func(c Peer) bool { return c == conn })
	s.Feeds = append(s.Feeds, conn)
	if from.Index == 0 { // what this run of the node applies again is the past, too
		conn.Send(appendEvents(from.Log, max(s.done(), s.old), past, nil))
	}
	if After(s.since, from) {
		// What is kept begins later. Nothing is known to whom nothing was told yet.
		conn.Send(appendEvents(from.Log, min(s.since.Index, s.done()), jumped, nil))
		from = s.since
	}
	// Whole entries: what of the first is known there already is passed over there.
	var frames [][]byte
	bytes := 0
	for i := 0; i < len(s.recent) && bytes <= maxCaughtUp; {
		at, k := s.recent[i].at, i
		var events []engine.Event
		for ; k < len(s.recent) && s.recent[k].at.Index == at.Index; k++ {
			events = append(events, s.recent[k].Event)
		}
		if at.Index > from.Index && at.Index <= s.done() { // one that is being told goes to all who are fed
			frames = append(frames, appendEvents(from.Log, at.Index, 0, events))
			bytes += len(frames[len(frames)-1])
		}
		i = k
	}
	if bytes > maxCaughtUp {
		conn.Send(appendEvents(from.Log, s.done(), jumped, nil))
		return
	}
	for _, frame := range frames {
		conn.Send(frame)
	}
	if s.done() > from.Index {
		conn.Send(appendEvents(from.Log, s.done(), 0, nil))
	}
}

// Unfeed ends the feeding of a node with a log, which it asked for. It reports whether it was fed.
func (h *Hub) Unfeed(conn Peer, log uint64) bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s := h.Stream(log)
	was := len(s.Feeds)
	s.Feeds = slices.DeleteFunc(s.Feeds, func(c Peer) bool { return c == conn })
	return len(s.Feeds) < was
}

// Lost ends all feeding over a connection that is gone.
func (h *Hub) Lost(conn Peer) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	delete(h.leases, conn)
	for _, s := range h.Logs {
		s.Feeds = slices.DeleteFunc(s.Feeds, func(c Peer) bool { return c == conn })
	}
}

// gapped is gap for who does not hold the lock.
func (h *Hub) gapped() {
	h.Mu.Lock()
	h.gap()
	h.Mu.Unlock()
	h.tellGaps()
}

// Silence tells everybody, here and where this node's events go, that events of a log
// may be late or lost.
func (h *Hub) Silence(log uint64) {
	h.Mu.Lock()
	h.gap()
	s := h.Stream(log)
	s.spread(appendEvents(log, s.at.Index, silent, nil))
	h.Mu.Unlock()
	h.tellGaps()
}

// tell passes an entry's events on to those who are fed.
func (s *stream) tell(log, index uint64, events []engine.Event) {
	s.spread(appendEvents(log, index, 0, events))
}

// jump passes on that events are not known.
func (s *stream) jump(log uint64) { s.spread(appendEvents(log, s.at.Index, jumped, nil)) }

// spread sends a frame to those who are fed, and forgets whom it cannot be sent to.
func (s *stream) spread(frame []byte) {
	s.Feeds = slices.DeleteFunc(s.Feeds, func(c Peer) bool { return !c.Send(frame) })
}

// TellProgress passes on where the logs are, so that who is fed can go on elsewhere
// without asking for what concerned nobody. It is called under the lock (Mu).
func (h *Hub) TellProgress() {
	for _, log := range slices.Sorted(maps.Keys(h.Logs)) {
		if s := h.Logs[log]; len(s.Feeds) > 0 {
			s.tell(log, s.done(), nil)
		}
	}
}

// EndFeeds tells those who are fed a log that there is no more here.
func (h *Hub) EndFeeds(log uint64) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	s := h.Stream(log)
	for _, conn := range s.Feeds {
		conn.Send(binary.AppendUvarint([]byte{FrameFeedEnd}, log))
	}
	s.Feeds = nil
}

// appendEvents makes a frame of events. More than a frame may carry would end the
// connection, each time anew: then it says that they are not known.
func appendEvents(log, index, flags uint64, events []engine.Event) []byte {
	b := binary.AppendUvarint([]byte{FrameEvents}, log)
	b = binary.AppendUvarint(b, index)
	b = binary.AppendUvarint(b, flags)
	for i := range events {
		e := &events[i]
		b = append(codec.AppendString(b, e.Owner), byte(e.Kind))
		b = codec.AppendString(codec.AppendString(b, e.Path), e.Namespace)
		if b = binary.AppendVarint(b, e.Token); len(b) > mesh.MaxFrameBytes {
			return appendEvents(log, index, flags|jumped, nil)
		}
	}
	return b
}
