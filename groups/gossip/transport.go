package gossip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/pathlockd/pathlockd/internal/tcp"
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
	// goes above it is cut, when it has read maxStreamRead more at most.
	maxUnread     = 16 << 20
	maxStreamRead = 4 << 10
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
// same port; where the operator's certificates are there, both over TLS (secure.go). One
// that was made by newDialer listens nowhere and only dials.
type transport struct {
	ctx    context.Context // ends when the transport does
	cancel context.CancelFunc
	wg     sync.WaitGroup // its goroutines
	conns  sync.WaitGroup // connections that are not closed by who uses them

	secure *secure          // nil: no TLS
	log    *listLog         // of what peers do wrong
	tcp    *net.TCPListener // nil: it only dials
	udp    *net.UDPConn     // likewise, and with TLS
	told   netip.AddrPort   // the address that the others are told
	dial   time.Duration
	lost   atomic.Pointer[func(to string, stream bool) bool] // Config.Lost

	packets chan *memberlist.Packet
	streams chan net.Conn
	unread  atomic.Int64
	turn    atomic.Uint64 // counts packets over TLS

	out struct{ packets, bytes atomic.Uint64 }

	mu struct {
		sync.Mutex
		open    map[*stream]struct{}
		oldest  []*stream            // inbound, by age, but for those in inbound
		inbound map[*stream]struct{} // those with packets, over TLS
		lanes   map[string]*lane     // over TLS, by gossip address
		closed  bool
	}
}

var _ memberlist.Transport = (*transport)(nil)

// newDialer makes a transport that listens nowhere and ends with ctx.
func newDialer(ctx context.Context, dial time.Duration, sec *secure, log *listLog) *transport {
	t := &transport{
		dial: dial, secure: sec, log: log, told: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
	}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.mu.open, t.mu.inbound, t.mu.lanes = make(map[*stream]struct{}), make(map[*stream]struct{}), make(map[string]*lane)
	return t
}

// bindTries is how often a free port is looked for that UDP has too.
const bindTries = 10

// newTransport listens at an address; port 0 is any that is free. The others are
// told another one when advertise is set, with the same port when that is 0.
func newTransport(bind, advertise netip.AddrPort, dial time.Duration, sec *secure, log *listLog) (*transport, error) {
	t := newDialer(context.Background(), dial, sec, log)
	var err error
	for range bindTries {
		if t.tcp, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(bind)); err != nil {
			break
		}
		if sec != nil {
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
	port := t.port()
	if advertise.IsValid() {
		t.told = advertise
		if advertise.Port() == 0 {
			t.told = netip.AddrPortFrom(advertise.Addr(), port)
		}
	} else {
		t.told = netip.AddrPortFrom(bind.Addr(), port)
	}
	t.wg.Go(t.accept)
	if t.udp != nil {
		// Bursts are short: all that a cluster says at once fits.
		_ = t.udp.SetReadBuffer(1 << 20)
		t.wg.Go(t.receive)
	}
	return t, nil
}

func (t *transport) port() uint16 { return t.tcp.Addr().(*net.TCPAddr).AddrPort().Port() }

// FinalAdvertiseAddr answers the address that the others are told.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.told.Addr().Unmap().AsSlice(), int(t.told.Port()), nil
}

// PacketCh gives memberlist the packets that came in. Over TLS they are from a port that
// nobody listens at, which matters to nobody: memberlist answers to the address that is
// in the packet.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives memberlist the connections that came in.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo sends one packet.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send gossip: %w", err)
	}
	if t.tcp == nil || t.ctx.Err() != nil {
		return time.Time{}, errClosed
	}
	if t.isLost(addr, false) {
		return time.Now(), nil
	}
	if t.secure != nil {
		return time.Now(), t.carry(b, to)
	}
	n, err := t.udp.WriteToUDPAddrPort(b, to)
	t.out.packets.Add(1)
	t.out.bytes.Add(uint64(n))
	return time.Now(), err
}

// DialTimeout opens a connection to another node.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if t.secure != nil {
		conn, err := t.dialTLS(addr, timeout, exchangeProtocol)
		if err != nil {
			return nil, err // and no interface with nothing in it
		}
		return conn, nil
	}
	return t.dialTCP(t.ctx, addr, timeout)
}

func (t *transport) dialTCP(ctx context.Context, addr string, timeout time.Duration) (*stream, error) {
	if t.isLost(addr, true) {
		return nil, errLost
	}
	dialer := net.Dialer{Timeout: min(timeout, t.dial)}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: conn, t: t}
	if !t.track(s, false) {
		return nil, errClosed
	}
	return s, nil
}

// dialTLS opens a connection for one of the two protocols.
func (t *transport) dialTLS(addr string, timeout time.Duration, protocol string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	s, err := t.dialTCP(ctx, addr, timeout)
	if err != nil {
		return nil, err
	}
	tcp.ExpireUnacked(s.Conn, laneStall)
	conn, err := t.secure.dialed(ctx, s, addr, protocol)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	if protocol == packetProtocol {
		s.unlimit() // it stays
	}
	return conn, nil
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
		_ = t.tcp.Close()
	}
	if t.udp != nil {
		_ = t.udp.Close()
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
