package groups

import (
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/wire"
)

// A node that has no replica of a log hears of its events from one that has. It asks to
// be fed from where it stands, is told what came after that and then of everything that
// comes, and asks another node when the first cannot go on.
// (events/feeds.go has what they say to each other.)

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
				n.hub.Silence(shard)
			}
		}
	})
}

// feedFrom asks for a log's events where they can be had, unless they come already. They
// are had from the leader: another node may be cut off from it, and know nothing new.
func (n *Node) feedFrom(shard uint64) {
	m := n.logs[shard].local.Load()
	now := n.feeding.of(shard)
	if m != nil && m.Loaded.Load() && m.AppliedIndex() >= n.hub.Where(shard).Index {
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
	at := n.hub.Where(shard)
	frame := binary.AppendUvarint([]byte{events.FrameFeed}, shard)
	frame = append(binary.AppendUvarint(binary.AppendUvarint(frame, at.Index), at.Ordinal), events.TellsLeases)
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
		conn.Send(binary.AppendUvarint([]byte{events.FrameFeedEnd}, shard))
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
func (n *Node) feedFrame(conn peerConn, kind byte, r *codec.Reader) {
	shard := r.Uvarint()
	l := n.logs[shard]
	if r.Err != nil || l == nil {
		return
	}
	switch kind {
	case events.FrameFeed:
		from := wire.Position{Log: shard, Index: r.Uvarint(), Ordinal: r.Uvarint()}
		if m := l.local.Load(); r.Err == nil && m != nil && m.Loaded.Load() {
			n.hub.Feed(conn, from)
			if len(r.Buf) > 0 {
				n.hub.FeedLeases(conn, shard)
			}
		} else {
			conn.Send(binary.AppendUvarint([]byte{events.FrameFeedEnd}, shard))
		}
	case events.FrameFeedEnd:
		if !n.hub.Unfeed(conn, shard) {
			n.feeding.over(shard, conn)
		}
	case events.FrameLeases:
		n.hub.LeaseFrame(r)
	case events.FrameEvents:
		n.hub.EventsFrame(shard, r)
	}
}
