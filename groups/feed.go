package groups

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// A node that has no replica of a log hears of its events from one that has. It asks to
// be fed from where it stands, is told what came after that and then of everything that
// comes, and asks another node when the first cannot go on.
//
//	feed   = 8 log index ordinal leases?  feed me from there; and I take frames of leases (tells.go)
//	events = 9 log index flags [owner kind path namespace token]…
//	end    = 10 log                       I have no replica of it, or no longer; or, from
//	                                      who is fed: I do not need it any more
const (
	frameFeed byte = iota + 8
	frameEvents
	frameFeedEnd
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

// feedEvery is how often a node looks whether it is fed all that it needs.
const feedEvery = 200 * time.Millisecond

// feeding is where the logs that this node does not host are fed from.
type feeding struct {
	mu    sync.Mutex
	from  map[uint64]source // by log
	ended map[endedFeed]bool
}

// source is who a log is fed from.
type source struct {
	conn peerConn
	host string
}

// endedFeed is a feed that its source has ended.
type endedFeed struct {
	conn  peerConn
	shard uint64
}

// feedLoop sees that every log is either hosted or fed, and tells subscribers when a
// log has had no leader for so long that its events must be thought late or lost.
func (n *Node) feedLoop() {
	quiet := make(map[uint64]time.Duration) // since when a log has no leader
	n.every(feedEvery, func() {
		n.lookForVotes()
		now := n.clock.Mono()
		for _, l := range n.ordered() {
			shard := l.shard
			n.feedFrom(shard)
			led := l.lead.Load().leader != 0
			if l.local.Load() == nil {
				led = n.feeding.of(shard).conn != nil
			}
			since, was := quiet[shard]
			switch {
			case led:
				delete(quiet, shard)
			case !was:
				quiet[shard] = now
			case since >= 0 && now-since >= n.cfg.ElectionMin:
				quiet[shard] = -1 // told once
				n.hub.silence(shard)
			}
		}
	})
}

// feedFrom asks for a log's events where they can be had, unless they come already. They
// are had from the leader: another node may be cut off from it, and know nothing new.
func (n *Node) feedFrom(shard uint64) {
	m := n.logs[shard].local.Load()
	now := n.feeding.of(shard)
	if m != nil && m.Loaded.Load() && m.AppliedIndex() >= n.hub.where(shard).Index {
		n.feeding.end(shard, now.conn) // its own replica has come far enough
		return
	}
	host, _ := n.leaderOf(shard)
	if now.conn != nil && (now.host == host || host == "" || host == n.id.HostID) {
		return
	}
	next := n.peer(host)
	if next == nil {
		return
	}
	n.feeding.end(shard, now.conn)
	n.feeding.begin(shard, source{next, host})
	at := n.hub.where(shard)
	frame := binary.AppendUvarint([]byte{frameFeed}, shard)
	frame = append(binary.AppendUvarint(binary.AppendUvarint(frame, at.Index), at.Ordinal), tellsLeases)
	if !next.Send(frame) {
		n.feeding.gone(next)
	}
}

// of is who feeds a log, and has not ended that.
func (f *feeding) of(shard uint64) source {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.from[shard]; s.conn != nil && !f.ended[endedFeed{s.conn, shard}] {
		return s
	}
	delete(f.from, shard)
	return source{}
}

// begin takes note of who is about to be asked for a log.
func (f *feeding) begin(shard uint64, s source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		f.from, f.ended = make(map[uint64]source), make(map[endedFeed]bool)
	}
	delete(f.ended, endedFeed{s.conn, shard})
	f.from[shard] = s
}

// end tells the node that a log was fed from, if it still is, that it need not.
func (f *feeding) end(shard uint64, conn peerConn) {
	f.mu.Lock()
	delete(f.from, shard)
	f.mu.Unlock()
	if conn != nil {
		conn.Send(binary.AppendUvarint([]byte{frameFeedEnd}, shard))
	}
}

// over takes note that a source has ended a feed.
func (f *feeding) over(shard uint64, conn peerConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		f.from, f.ended = make(map[uint64]source), make(map[endedFeed]bool)
	}
	f.ended[endedFeed{conn, shard}] = true
}

// gone forgets a connection that is closed.
func (f *feeding) gone(conn peerConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.from, func(_ uint64, s source) bool { return s.conn == conn })
	maps.DeleteFunc(f.ended, func(e endedFeed, _ bool) bool { return e.conn == conn })
}

// feedFrame takes what concerns feeds.
func (n *Node) feedFrame(conn peerConn, kind byte, r *replica.EntryReader) {
	shard := r.Uvarint()
	l := n.logs[shard]
	if r.Err != nil || l == nil {
		return
	}
	switch kind {
	case frameFeed:
		from := wire.Position{Log: shard, Index: r.Uvarint(), Ordinal: r.Uvarint()}
		if m := l.local.Load(); r.Err == nil && m != nil && m.Loaded.Load() {
			n.hub.feed(conn, from)
			if len(r.Buf) > 0 {
				n.hub.feedLeases(conn, shard)
			}
		} else {
			conn.Send(binary.AppendUvarint([]byte{frameFeedEnd}, shard))
		}
	case frameFeedEnd:
		if !n.hub.unfeed(conn, shard) {
			n.feeding.over(shard, conn)
		}
	case frameLeases:
		n.hub.leaseFrame(r)
	case frameEvents:
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
			n.hub.Missed(shard, index)
		case flags&silent != 0:
			n.hub.gapped()
		case flags&past != 0:
			n.hub.fedFrom(shard, index)
		default:
			n.hub.Publish(shard, index, events, true)
		}
	}
}

// where answers how far a log's events are known.
func (h *hub) where(log uint64) wire.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream(log).at
}

// feed begins to feed a node, after a place.
func (h *hub) feed(conn peerConn, from wire.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(from.Log)
	s.feeds = slices.DeleteFunc(s.feeds, func(c peerConn) bool { return c == conn })
	s.feeds = append(s.feeds, conn)
	if from.Index == 0 { // what this run of the node applies again is the past, too
		conn.Send(appendEvents(from.Log, max(s.done(), s.old), past, nil))
	}
	if after(s.since, from) {
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

// unfeed ends the feeding of a node with a log, which it asked for. It reports whether it was fed.
func (h *hub) unfeed(conn peerConn, log uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(log)
	was := len(s.feeds)
	s.feeds = slices.DeleteFunc(s.feeds, func(c peerConn) bool { return c == conn })
	return len(s.feeds) < was
}

// lost ends all feeding over a connection that is gone.
func (h *hub) lost(conn peerConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, conn)
	for _, s := range h.logs {
		s.feeds = slices.DeleteFunc(s.feeds, func(c peerConn) bool { return c == conn })
	}
}

// gapped is gap for who does not hold the lock.
func (h *hub) gapped() {
	h.mu.Lock()
	h.gap()
	h.mu.Unlock()
	h.tellGaps()
}

// silence tells everybody, here and where this node's events go, that events of a log
// may be late or lost.
func (h *hub) silence(log uint64) {
	h.mu.Lock()
	h.gap()
	s := h.stream(log)
	s.spread(appendEvents(log, s.at.Index, silent, nil))
	h.mu.Unlock()
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
	s.feeds = slices.DeleteFunc(s.feeds, func(c peerConn) bool { return !c.Send(frame) })
}

// tellProgress passes on where the logs are, so that who is fed can go on elsewhere
// without asking for what concerned nobody.
func (h *hub) tellProgress() {
	for _, log := range sortedShards(h.logs) {
		if s := h.logs[log]; len(s.feeds) > 0 {
			s.tell(log, s.done(), nil)
		}
	}
}

// endFeeds tells those who are fed a log that there is no more here.
func (h *hub) endFeeds(log uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(log)
	for _, conn := range s.feeds {
		conn.Send(binary.AppendUvarint([]byte{frameFeedEnd}, log))
	}
	s.feeds = nil
}

// appendEvents makes a frame of events. More than a frame may carry would end the
// connection, each time anew: then it says that they are not known.
func appendEvents(log, index, flags uint64, events []engine.Event) []byte {
	b := binary.AppendUvarint([]byte{frameEvents}, log)
	b = binary.AppendUvarint(b, index)
	b = binary.AppendUvarint(b, flags)
	for i := range events {
		e := &events[i]
		b = append(replica.AppendString(b, e.Owner), byte(e.Kind))
		b = replica.AppendString(replica.AppendString(b, e.Path), e.Namespace)
		if b = binary.AppendVarint(b, e.Token); len(b) > mesh.MaxFrameBytes {
			return appendEvents(log, index, flags|jumped, nil)
		}
	}
	return b
}
