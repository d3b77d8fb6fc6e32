package gossip

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// accept takes connections in until the listener is closed.
func (t *transport) accept() {
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
		if t.secure != nil {
			t.wg.Go(func() { t.greet(s) }) // at most maxStreams that were not cut
			continue
		}
		if !t.handOver(s) {
			return
		}
	}
}

// handOver gives memberlist a connection that came in.
func (t *transport) handOver(conn net.Conn) bool {
	select {
	case t.streams <- conn:
		return true
	case <-t.ctx.Done():
		_ = conn.Close()
		return false
	}
}

// greet finds out over TLS who came in, and what for.
func (t *transport) greet(s *stream) {
	conn, protocol, err := t.secure.accepted(t.ctx, s)
	if err != nil {
		t.refuse(s, err)
		_ = s.Close()
		return
	}
	if protocol == exchangeProtocol {
		t.handOver(conn)
		return
	}
	err = t.unload(conn, s)
	_ = conn.Close()
	if t.ctx.Err() == nil && !errors.Is(err, io.EOF) {
		t.log.debug("packets of another node ended", s.RemoteAddr().String(), err)
	}
}

// refuse says why a peer is not let in, here, and there where TLS does not.
func (t *transport) refuse(s *stream, err error) {
	if t.ctx.Err() != nil {
		return
	}
	why, peer := strangerError(err), hostOf(s.RemoteAddr())
	if why == nil {
		t.log.debug("a connection ended before it was known whose it is", peer, err)
		return
	}
	t.log.warn("tls"+peer+kindOf(err), "refused gossip of a peer", peer, why)
	if isNoTLS(err) {
		t.secure.turnAway(s)
	}
}

// receive takes datagrams in until the socket is closed.
func (t *transport) receive() {
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
