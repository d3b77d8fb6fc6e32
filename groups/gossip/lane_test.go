package gossip

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/pathlockd/pathlockd/internal/testkit/authority"
)

// secured answers what transports of a test take part with, changed by the options.
func secured(t *testing.T, mine *authority.Authority, options ...func(*secure)) *secure {
	t.Helper()
	s, err := newSecure(mine.Node(t, local), func(addr string) []string { return hostsOf(addr) })
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// quietLog is for transports without a node.
func quietLog() *listLog {
	return &listLog{log: slog.New(slog.NewTextHandler(everything, nil)), limit: NewLimiter(warnEvery)}
}

// carrier is a transport over TLS at an address, "" for any.
func carrier(t *testing.T, addr string, s *secure) *transport {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var tr *transport
	var err error
	eventually(t, "a port", func() bool {
		tr, err = newTransport(netip.MustParseAddrPort(addr), netip.AddrPort{}, time.Second, s, quietLog())
		return err == nil
	})
	t.Cleanup(func() { _ = tr.Shutdown(); tr.conns.Wait() })
	return tr
}

// packet is the next one that came in, nil when none does for a moment.
func packet(tr *transport) *memberlist.Packet {
	select {
	case p := <-tr.packets:
		return p
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// send writes packets until one is there.
func send(t *testing.T, from, to *transport, b []byte) {
	t.Helper()
	eventually(t, "a packet arrives", func() bool {
		if _, err := from.WriteTo(b, to.told.String()); err != nil {
			t.Fatal(err)
		}
		p := packet(to)
		return p != nil && bytes.Equal(p.Buf, b)
	})
}

// connections counts a transport's with packets that came in, and its lanes.
func (t *transport) connections() (inbound, lanes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.inbound), len(t.mu.lanes)
}

// TestLane: packets of every length arrive whole and in order over one connection. They
// are lost while the peer is away, and arrive again when it is back.
func TestLane(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a, b := carrier(t, "", secured(t, mine)), carrier(t, "", secured(t, mine))
	send(t, a, b, []byte{1})
	for n := 1; n <= maxDatagram; n = 2*n + 1 {
		for range 2 {
			if _, err := a.WriteTo(bytes.Repeat([]byte{byte(n)}, n), b.told.String()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			var p *memberlist.Packet
			eventually(t, "the packet", func() bool { p = packet(b); return p != nil && len(p.Buf) >= n })
			if !bytes.Equal(p.Buf, bytes.Repeat([]byte{byte(n)}, n)) || p.From == nil || p.Timestamp.IsZero() {
				t.Fatalf("%d bytes became %d from %v", n, len(p.Buf), p.From)
			}
		}
	}
	send(t, a, b, make([]byte, maxDatagram))
	if a.unread.Load() != 0 || b.unread.Load() != 0 {
		t.Error("a connection that stays has a part of what strangers may send")
	}
	if in, _ := b.connections(); in != 1 {
		t.Errorf("they came over %d connections, want 1", in)
	}
	for _, n := range []int{0, maxDatagram + 1} {
		if _, err := a.WriteTo(make([]byte, n), b.told.String()); err == nil {
			t.Errorf("a packet of %d bytes is sent", n)
		}
	}
	if _, err := a.WriteTo([]byte{1}, "nonsense"); err == nil {
		t.Error("a packet to nowhere is sent")
	}

	addr := b.told.String()
	_ = b.Shutdown()
	eventually(t, "a hangs up when b does", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.mu.open) == 0
	})
	before := a.out.packets.Load()
	for range 2 * laneQueue {
		if _, err := a.WriteTo([]byte("lost"), addr); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "those are lost", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.mu.lanes[addr].queue) == 0
	})
	if n := a.out.packets.Load() - before; n > 1 { // one may have been on its way
		t.Errorf("%d packets to nobody count as sent", n)
	}
	b = carrier(t, addr, secured(t, mine))
	eventually(t, "a packet arrives", func() bool {
		_, _ = a.WriteTo([]byte("found"), addr)
		p := packet(b)
		return p != nil && string(p.Buf) == "found"
	})
	if err := a.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.WriteTo([]byte{1}, addr); !errors.Is(err, errClosed) {
		t.Errorf("sent when closed: %v", err)
	}
	if err := a.carry([]byte{1}, b.told); !errors.Is(err, errClosed) {
		t.Errorf("carried when closed: %v", err)
	}
}

// TestLaneNeverBlocks writes to a peer that takes connections and says nothing, and to one
// that reads nothing: what does not fit is lost, and the first is not dialed for each packet.
func TestLaneNeverBlocks(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a := carrier(t, "", secured(t, mine, func(s *secure) { s.handshake = 50 * time.Millisecond }))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var dials atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			defer func() { _ = c.Close() }()
		}
	}()
	began := time.Now()
	written := 0
	for dials.Load() < 3 {
		if _, err := a.WriteTo([]byte("x"), l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		written++
		if time.Since(began) > patience {
			t.Fatal("it is not dialed again")
		}
	}
	if least := 2 * laneAgain; time.Since(began) < least {
		t.Errorf("three dials within %s, want %s at least", time.Since(began), least)
	}
	if written < 10*laneQueue {
		t.Errorf("only %d packets were written meanwhile: one waited for the peer", written)
	}

	// One that is let in and reads nothing: its connection and queue fill up.
	s := secured(t, mine)
	deafer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deafer.Close() }()
	in := make(chan *tls.Conn, 1)
	go func() {
		c, err := deafer.Accept()
		if err != nil {
			return
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if conn, _, err := s.accepted(context.Background(), c); err == nil {
			in <- conn
		}
	}()
	b := carrier(t, "", secured(t, mine))
	addr := deafer.Addr().String()
	eventually(t, "its queue is full", func() bool {
		for range laneQueue {
			if _, err := b.WriteTo(make([]byte, maxDatagram), addr); err != nil {
				t.Fatal(err)
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.mu.lanes[addr].queue) == laneQueue
	})
	other := carrier(t, "", secured(t, mine))
	send(t, b, other, []byte("others have theirs"))
	_ = (<-in).Close()
}

// TestLaneIdle: a lane without packets ends on both sides, and is there again for the next
// packet; one that was found by a packet just now does not end.
func TestLaneIdle(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a := carrier(t, "", secured(t, mine, func(s *secure) { s.idle = 100 * time.Millisecond }))
	b := carrier(t, "", secured(t, mine))
	for range 2 {
		send(t, a, b, []byte("packet"))
		eventually(t, "both hang up", func() bool {
			packet(b) // those that came after the first
			_, lanes := a.connections()
			in, _ := b.connections()
			return lanes == 0 && in == 0
		})
	}
	l := &lane{t: a, to: "x", queue: make(chan []byte, 1)}
	l.queue <- nil
	if l.retire() {
		t.Error("a lane with a packet ends")
	}
	// Who says nothing is cut where it comes in, if it does not hang up itself.
	c := carrier(t, "", secured(t, mine, func(s *secure) { s.idle = 100 * time.Millisecond }))
	send(t, b, c, []byte("packet"))
	eventually(t, "it is cut", func() bool { packet(c); in, _ := c.connections(); return in == 0 })
	send(t, b, c, []byte("and comes again"))
}
