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
	s.t.in.bytes.Add(uint64(n))
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

// Traffic is what came in and went out at the gossip port since the start.
type Traffic struct {
	PacketsIn, PacketsOut uint64 // datagrams
	BytesIn, BytesOut     uint64 // payload of datagrams and of connections
}

// Traffic answers what was sent and received.
func (m *Members) Traffic() Traffic {
	t := m.transport
	return Traffic{
		PacketsIn: t.in.packets.Load(), PacketsOut: t.out.packets.Load(),
		BytesIn: t.in.bytes.Load(), BytesOut: t.out.bytes.Load(),
	}
}
