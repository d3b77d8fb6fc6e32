package gossip

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stream is a connection with a limit. It is used by one goroutine, or by crypto/tls.
type stream struct {
	net.Conn
	t     *transport
	born  time.Time // of one that came in; zero of others
	read  atomic.Int64
	once  sync.Once
	free  bool          // of limits: it is known whose it is, and has others (lane.go)
	begun bool          // something was read
	heard atomic.Uint64 // the turn of the last packet
}

// Read reads, up to the limits.
func (s *stream) Read(b []byte) (int, error) {
	if s.free {
		return s.Conn.Read(b)
	}
	n, err := s.Conn.Read(b[:min(len(b), maxStreamRead)])
	if !s.begun && n > 0 {
		s.begun = true
		if s.t.secure == nil && s.foreign(b[0]) {
			return 0, errTheyHaveTLS
		}
	}
	if s.read.Add(int64(n)) > maxStreamBytes {
		err = errStreamTooLong
	}
	if s.t.unread.Add(int64(n)) > maxUnread {
		err = errUnread
	}
	return n, err
}

// foreign notices a peer that speaks TLS where there is none. One that came in is answered
// by memberlist, encrypted, which the peer knows not to be TLS.
func (s *stream) foreign(first byte) bool {
	if !s.born.IsZero() && first == tlsHandshake {
		peer := hostOf(s.RemoteAddr())
		s.t.log.warn("foreign"+peer, "refused gossip of a peer", peer, errTheyHaveTLS)
	}
	return s.born.IsZero() && first == tlsAlert
}

// unlimit ends the limits that are for strangers.
func (s *stream) unlimit() {
	s.free = true
	s.t.unread.Add(-s.read.Swap(0))
}

// Write writes.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.t.out.bytes.Add(uint64(n))
	return n, err
}

// Close closes the connection. What it sent is counted no longer.
func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(func() {
		s.t.unread.Add(-s.read.Load())
		s.t.untrack(s)
		s.t.conns.Done()
	})
	return err
}

// room says whether one more connection may come in, and makes room by cutting the
// oldest when that had its time.
func (t *transport) room(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.oldest) < maxStreams {
		return true
	}
	if now.Sub(t.mu.oldest[0].born) < minStreamTime {
		return false
	}
	_ = t.mu.oldest[0].Conn.Close() // its reader ends, and closes it properly
	t.mu.oldest = append(t.mu.oldest[:0], t.mu.oldest[1:]...)
	return true
}

// track counts an open connection. It closes s and says no when the transport is
// closed.
func (t *transport) track(s *stream, inbound bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		_ = s.Conn.Close()
		return false
	}
	t.mu.open[s] = struct{}{}
	t.conns.Add(1)
	if inbound {
		t.mu.oldest = append(t.mu.oldest, s)
	}
	return true
}

func (t *transport) untrack(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.open, s)
	delete(t.mu.inbound, s)
	t.dropOldest(s)
}

// dropOldest counts s no longer as one of a stranger. Caller holds mu.
func (t *transport) dropOldest(s *stream) {
	if i := slices.Index(t.mu.oldest, s); i >= 0 {
		t.mu.oldest = slices.Delete(t.mu.oldest, i, i+1)
	}
}

// Traffic is what went out at the gossip port since the start.
type Traffic struct {
	PacketsOut uint64 // datagrams, or frames over TLS
	BytesOut   uint64 // payload of datagrams and of connections, TLS's own included
}

// Traffic answers what was sent.
func (m *Members) Traffic() Traffic {
	out := &m.transport.out
	return Traffic{PacketsOut: out.packets.Load(), BytesOut: out.bytes.Load()}
}
