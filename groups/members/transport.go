package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of what comes in before it is known who sent it. memberlist's own transport
// has none: it would buffer 20 MiB for each of any number of connections.
const (
	// maxStreams is how many connections that came in are open at once. One more, and
	// the oldest is cut: an exchange takes milliseconds, so it is one that does not
	// speak. While it is younger than minStreamTime it may, and the new one waits: when
	// a whole cluster starts at once, all come at once.
	maxStreams    = 64
	minStreamTime = 500 * time.Millisecond
	// maxStreamBytes is how much one connection may send: everything about maxMembers
	// members, twice. It is cut at more.
	maxStreamBytes = 2 << 20
	// maxUnread is how much all connections that are open may have sent. The one that
	// goes above it is cut.
	maxUnread = 16 << 20
	// maxDatagram is the longest datagram that is looked at. Nobody sends more than
	// maxPacket; longer ones are dropped.
	maxDatagram = 8 << 10
)

// Errors of streams and of a transport that is closed.
var (
	errStreamTooLong = fmt.Errorf("the peer sent more than %d bytes", maxStreamBytes)
	errUnread        = fmt.Errorf("connections at the gossip port hold more than %d bytes", maxUnread)
	errClosed        = errors.New("gossip is closed")
	errLost          = errors.New("the fault laboratory lets no connection through")
)

// transport carries memberlist's packets over UDP and its exchanges over TCP, at the
// same port. One that was made by newDialer listens nowhere and only dials.
type transport struct {
	ctx    context.Context // ends when the transport does
	cancel context.CancelFunc
	wg     sync.WaitGroup // the two listening goroutines
	conns  sync.WaitGroup // connections that are not closed by who uses them

	tcp  *net.TCPListener // nil: it only dials
	udp  *net.UDPConn     // likewise
	told netip.AddrPort   // the address that the others are told
	dial time.Duration
	lost atomic.Pointer[func(to string, stream bool) bool] // Config.Lost

	packets chan *memberlist.Packet
	streams chan net.Conn
	unread  atomic.Int64

	out struct{ packets, bytes atomic.Uint64 }

	mu struct {
		sync.Mutex
		open   map[*stream]struct{}
		oldest []*stream // inbound, by age
		closed bool
	}
}

var _ memberlist.Transport = (*transport)(nil)

// newDialer makes a transport that listens nowhere and ends with ctx.
func newDialer(ctx context.Context, dial time.Duration) *transport {
	t := &transport{
		dial: dial, told: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
	}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.mu.open = make(map[*stream]struct{})
	return t
}

// bindTries is how often a free port is looked for that UDP has too.
const bindTries = 10

// newTransport listens at an address; port 0 is any that is free. The others are
// told another one when advertise is set, with the same port when that is 0.
func newTransport(bind, advertise netip.AddrPort, dial time.Duration) (*transport, error) {
	t := newDialer(context.Background(), dial)
	var err error
	for range bindTries {
		if t.tcp, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(bind)); err != nil {
			break
		}
		at := netip.AddrPortFrom(bind.Addr(), t.tcp.Addr().(*net.TCPAddr).AddrPort().Port())
		if t.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err == nil {
			break
		}
		_ = t.tcp.Close()
		if bind.Port() != 0 {
			break
		}
	}
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("listen for gossip: %w", err)
	}
	// Bursts are short: all that a cluster says at once fits.
	_ = t.udp.SetReadBuffer(1 << 20)
	port := t.port()
	if advertise.IsValid() {
		t.told = advertise
		if advertise.Port() == 0 {
			t.told = netip.AddrPortFrom(advertise.Addr(), port)
		}
	} else {
		t.told = netip.AddrPortFrom(bind.Addr(), port)
	}
	t.wg.Add(2)
	go t.accept()
	go t.receive()
	return t, nil
}

func (t *transport) port() uint16 { return t.tcp.Addr().(*net.TCPAddr).AddrPort().Port() }

// FinalAdvertiseAddr answers the address that the others are told.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.told.Addr().Unmap().AsSlice(), int(t.told.Port()), nil
}

// PacketCh gives memberlist what came in over UDP.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives memberlist the connections that came in.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo sends one datagram.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send gossip: %w", err)
	}
	if t.udp == nil || t.ctx.Err() != nil {
		return time.Time{}, errClosed
	}
	if t.isLost(addr, false) {
		return time.Now(), nil
	}
	n, err := t.udp.WriteToUDPAddrPort(b, to)
	t.out.packets.Add(1)
	t.out.bytes.Add(uint64(n))
	return time.Now(), err
}

// DialTimeout opens a connection to another node.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if t.isLost(addr, true) {
		return nil, errLost
	}
	dialer := net.Dialer{Timeout: min(timeout, t.dial)}
	conn, err := dialer.DialContext(t.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: conn, t: t}
	if !t.track(s, false) {
		return nil, errClosed
	}
	return s, nil
}

// isLost asks the fault laboratory, if there is one.
func (t *transport) isLost(to string, stream bool) bool {
	lost := t.lost.Load()
	return lost != nil && *lost != nil && (*lost)(to, stream)
}

// Shutdown stops listening and cuts every connection.
func (t *transport) Shutdown() error {
	t.cancel()
	if t.tcp != nil {
		_, _ = t.tcp.Close(), t.udp.Close()
	}
	t.mu.Lock()
	t.mu.closed = true
	for s := range t.mu.open {
		_ = s.Conn.Close() // who reads it will close it properly
	}
	t.mu.Unlock()
	t.wg.Wait()
	return nil
}

// accept takes connections in until the listener is closed.
func (t *transport) accept() {
	defer t.wg.Done()
	for {
		conn, err := t.tcp.Accept()
		if err != nil {
			if !t.pause() {
				return
			}
			continue // out of file descriptors, say
		}
		for !t.room(time.Now()) {
			if !t.pause() {
				_ = conn.Close()
				return
			}
		}
		s := &stream{Conn: conn, t: t, born: time.Now()}
		if !t.track(s, true) {
			return
		}
		select {
		case t.streams <- s:
		case <-t.ctx.Done():
			_ = s.Close()
			return
		}
	}
}

// receive takes datagrams in until the socket is closed.
func (t *transport) receive() {
	defer t.wg.Done()
	buf := make([]byte, maxDatagram+1)
	for {
		n, from, err := t.udp.ReadFromUDPAddrPort(buf)
		now := time.Now()
		if err != nil {
			if !t.pause() {
				return
			}
			continue
		}
		if n == 0 || n > maxDatagram {
			continue
		}
		p := &memberlist.Packet{
			Buf:       append(make([]byte, 0, n), buf[:n]...),
			From:      net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.Addr().Unmap(), from.Port())),
			Timestamp: now,
		}
		select {
		case t.packets <- p:
		case <-t.ctx.Done():
			return
		}
	}
}

// pause waits a moment after an error, and says whether to go on.
func (t *transport) pause() bool {
	select {
	case <-t.ctx.Done():
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
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
	for i, o := range t.mu.oldest {
		if o == s {
			t.mu.oldest = append(t.mu.oldest[:i], t.mu.oldest[i+1:]...)
			break
		}
	}
}
