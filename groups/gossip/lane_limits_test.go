package gossip

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/authority"
)

// TestLaneLimits: so many peers are written to and no more; of connections with packets
// the one that was silent for longest makes room.
func TestLaneLimits(t *testing.T) {
	t.Parallel()
	a := carrier(t, "", secured(t, authority.New(t)))
	a.mu.Lock()
	for i := range maxLanes {
		a.mu.lanes[string(rune(i))] = &lane{}
	}
	a.mu.Unlock()
	if err := a.carry([]byte{1}, netip.MustParseAddrPort("127.0.0.1:1")); err != nil {
		t.Errorf("a packet that is lost: %v", err)
	}
	if _, lanes := a.connections(); lanes != maxLanes {
		t.Errorf("%d lanes, the limit is %d", lanes, maxLanes)
	}

	var all []*stream
	come := func() (s *stream, peer net.Conn) {
		peer, raw := net.Pipe()
		s = &stream{Conn: raw, t: a, born: time.Now()}
		if !a.track(s, true) {
			t.Fatal("closed")
		}
		s.read.Store(100)
		a.unread.Add(100)
		a.promote(s)
		all = append(all, s)
		return s, peer
	}
	for range maxLanes {
		come()
	}
	a.mu.Lock()
	strangers := len(a.mu.oldest)
	a.mu.Unlock()
	if strangers != 0 || a.unread.Load() != 0 {
		t.Errorf("%d connections count as strangers', with %d bytes", strangers, a.unread.Load())
	}
	all[0].heard.Store(a.turn.Add(1)) // said something: the second is the one
	come()
	closed := func(s *stream) bool {
		_ = s.Conn.SetReadDeadline(time.Now())
		_, err := s.Conn.Read(make([]byte, 1))
		return errors.Is(err, io.ErrClosedPipe)
	}
	if in, _ := a.connections(); in != maxLanes || !closed(all[1]) || closed(all[0]) || closed(all[2]) {
		t.Errorf("%d connections are kept (limit %d), or another was cut", in, maxLanes)
	}
	for _, s := range all {
		_ = s.Close()
	}
	if in, _ := a.connections(); in != 0 {
		t.Errorf("%d closed connections are kept", in)
	}
}

// TestFrames says what no node says over a connection with packets: it is closed, and
// nothing was taken for a packet.
func TestFrames(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a := carrier(t, "", secured(t, mine))
	s := secured(t, mine)
	open := func() *tls.Conn {
		raw, err := net.Dial("tcp", a.told.String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := s.dialed(t.Context(), raw, a.told.String(), packetProtocol)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for name, said := range map[string][]byte{
		"nothing":  {0, 0},
		"too much": append(binary.BigEndian.AppendUint16(nil, maxDatagram+1), make([]byte, maxDatagram+1)...),
	} {
		conn := open()
		_, _ = conn.Write(said)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, context.DeadlineExceeded) || err == nil {
			t.Errorf("%s: it stays open: %v", name, err)
		}
		_ = conn.Close()
		if p := packet(a); p != nil {
			t.Errorf("%s: a packet of %d bytes", name, len(p.Buf))
		}
	}
	conn := open()
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte{0, 3, 1})
	if p := packet(a); p != nil {
		t.Errorf("a packet of %d bytes that is not all there", len(p.Buf))
	}
	_, _ = conn.Write([]byte{2, 3, 0})
	eventually(t, "the rest", func() bool { p := packet(a); return p != nil && bytes.Equal(p.Buf, []byte{1, 2, 3}) })
}
