package members

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stream is a connection with a limit. It is used by one goroutine.
type stream struct {
	net.Conn
	t    *transport
	born time.Time // of one that came in
	read atomic.Int64
	once sync.Once
}

// Read reads, up to the limits.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.read.Add(int64(n)) > maxStreamBytes {
		err = errStreamTooLong
	}
	if s.t.unread.Add(int64(n)) > maxUnread {
		err = errUnread
	}
	return n, err
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

// Traffic is what went out at the gossip port since the start.
type Traffic struct {
	PacketsOut uint64 // datagrams
	BytesOut   uint64 // payload of datagrams and of connections
}

// Traffic answers what was sent.
func (m *Members) Traffic() Traffic {
	out := &m.transport.out
	return Traffic{PacketsOut: out.packets.Load(), BytesOut: out.bytes.Load()}
}
