package groups

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// A node that has no replica of a log hears of its events from one that has. It asks to
// be fed from where it stands, is told what came after that and then of everything that
// comes, and asks another node when the first cannot go on.
//
//	feed   = 8 log index ordinal          feed me from there
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

// feeds is where the logs that this node does not host are fed from.
type feeds map[uint64]*mesh.Conn

// feedLoop sees that every log is either hosted or fed, and tells subscribers when a
// log has had no leader for so long that its events must be thought late or lost.
func (n *Node) feedLoop() {
	t := time.NewTicker(feedEvery)
	defer t.Stop()
	from := make(feeds)
	quiet := make(map[uint64]time.Duration) // since when a log has no leader
	for {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		n.lookForVotes()
		now := n.clock.Mono()
		for shard, l := range n.logs {
			n.feedFrom(from, shard)
			led := l.lead.Load().leader != 0
			if l.local.Load() == nil {
				led = from[shard] != nil
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
	}
}

// feedFrom asks for a log's events where they can be had, unless they come already. They
// are had from the leader: another node may be cut off from it, and know nothing new.
func (n *Node) feedFrom(from feeds, shard uint64) {
	m := n.logs[shard].local.Load()
	n.cluster.mu.Lock()
	conn := from[shard]
	if conn != nil {
		_, open := n.cluster.open[conn]
		if !open || n.cluster.ended[endedFeed{conn, shard}] {
			conn = nil
		}
	}
	n.cluster.mu.Unlock()
	if m != nil && m.loaded.Load() && m.appliedIndex() >= n.hub.where(shard).Index {
		from.end(shard, conn) // its own replica has come far enough
		return
	}
	host, _ := n.leaderOf(shard)
	if conn != nil && (conn.Peer().Host == host || host == "" || host == n.id.HostID) {
		return
	}
	next := (*mesh.Conn)(nil)
	if host != "" && host != n.id.HostID {
		next = n.cluster.conn(host)
	}
	if next == nil {
		if conn == nil {
			delete(from, shard)
		}
		return
	}
	from.end(shard, conn)
	n.cluster.mu.Lock()
	delete(n.cluster.ended, endedFeed{next, shard})
	n.cluster.mu.Unlock()
	at := n.hub.where(shard)
	frame := binary.AppendUvarint([]byte{frameFeed}, shard)
	frame = binary.AppendUvarint(binary.AppendUvarint(frame, at.Index), at.Ordinal)
	if next.Send(frame) {
		from[shard] = next
	}
}

// end tells the node that a log was fed from, if it still is, that it need not.
func (f feeds) end(shard uint64, conn *mesh.Conn) {
	delete(f, shard)
	if conn != nil {
		conn.Send(binary.AppendUvarint([]byte{frameFeedEnd}, shard))
	}
}

// endedFeed is a feed that its source has ended.
type endedFeed struct {
	conn  *mesh.Conn
	shard uint64
}

// feedFrame takes what concerns feeds.
func (c *cluster) feedFrame(conn *mesh.Conn, kind byte, r *entryReader) {
	shard := r.uvarint()
	l := c.n.logs[shard]
	if r.err != nil || l == nil {
		return
	}
	switch kind {
	case frameFeed:
		from := wire.Position{Log: shard, Index: r.uvarint(), Ordinal: r.uvarint()}
		if m := l.local.Load(); r.err == nil && m != nil && m.loaded.Load() {
			c.n.hub.feed(conn, from)
		} else {
			conn.Send(binary.AppendUvarint([]byte{frameFeedEnd}, shard))
		}
	case frameFeedEnd:
		if !conn.Dialed() {
			c.n.hub.unfeed(conn, shard)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[endedFeed{conn, shard}] = true
	case frameEvents:
		index, flags := r.uvarint(), r.uvarint()
		var events []engine.Event
		for len(r.buf) > 0 && r.err == nil {
			events = append(events, engine.Event{
				Owner: r.text(), Kind: wire.EventKind(r.byte()), Path: r.text(), Namespace: r.text(), Token: r.varint(),
			})
		}
		if r.err != nil {
			return
		}
		switch {
		case flags&jumped != 0:
			c.n.hub.missed(shard, index)
		case flags&silent != 0:
			c.n.hub.gapped()
		case flags&past != 0:
			c.n.hub.fedFrom(shard, index)
		default:
			c.n.hub.publish(shard, index, events, true)
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
func (h *hub) feed(conn *mesh.Conn, from wire.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(from.Log)
	s.feeds = slices.DeleteFunc(s.feeds, func(c *mesh.Conn) bool { return c == conn })
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

// unfeed ends the feeding of a node with a log, which it asked for.
func (h *hub) unfeed(conn *mesh.Conn, log uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(log)
	s.feeds = slices.DeleteFunc(s.feeds, func(c *mesh.Conn) bool { return c == conn })
}

// lost ends all feeding over a connection that is gone.
func (h *hub) lost(conn *mesh.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.logs {
		s.feeds = slices.DeleteFunc(s.feeds, func(c *mesh.Conn) bool { return c == conn })
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
	s.feeds = slices.DeleteFunc(s.feeds, func(c *mesh.Conn) bool { return !c.Send(frame) })
}

// tellProgress passes on where the logs are, so that who is fed can go on elsewhere
// without asking for what concerned nobody.
func (h *hub) tellProgress() {
	for log, s := range h.logs {
		if len(s.feeds) > 0 {
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
		b = append(appendString(b, e.Owner), byte(e.Kind))
		b = appendString(appendString(b, e.Path), e.Namespace)
		if b = binary.AppendVarint(b, e.Token); len(b) > mesh.MaxFrameBytes {
			return appendEvents(log, index, flags|jumped, nil)
		}
	}
	return b
}
