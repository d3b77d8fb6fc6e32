package web

import (
	"net"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/quicvarint"
)

// udpProxy stands between a client and a server, and holds QUIC packets back.
type udpProxy struct {
	addr string

	mu      sync.Mutex
	conns   map[string]net.Conn // to the server, by client
	holds   [2]func([]byte) bool
	kept    [2][]heldPacket
	packets [2][][]byte // their heads
	front   *net.UDPConn
	wg      sync.WaitGroup
}

type way int

const (
	fromClient way = iota
	fromServer
)

type heldPacket struct {
	packet []byte
	send   func([]byte)
}

func newUDPProxy(t testing.TB, server string) *udpProxy {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := &udpProxy{addr: front.LocalAddr().String(), conns: make(map[string]net.Conn), front: front}
	p.wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := front.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			p.mu.Lock()
			to := p.conns[from.String()]
			if to == nil {
				if to, err = net.Dial("udp", server); err != nil {
					p.mu.Unlock()
					continue
				}
				p.conns[from.String()] = to
				p.wg.Go(func() {
					buf := make([]byte, 1<<16)
					for {
						n, err := to.Read(buf)
						if err != nil {
							return
						}
						p.mu.Lock()
						p.pass(fromServer, buf[:n], func(b []byte) { front.WriteToUDPAddrPort(b, from) })
						p.mu.Unlock()
					}
				})
			}
			p.pass(fromClient, buf[:n], func(b []byte) { to.Write(b) })
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		front.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// pass sends the packets of a datagram on, those that are held aside. The caller holds
// mu.
func (p *udpProxy) pass(d way, datagram []byte, send func([]byte)) {
	var on []byte
	for _, packet := range split(datagram) {
		p.packets[d] = append(p.packets[d], packet[:min(len(packet), 8)])
		if hold := p.holds[d]; hold != nil && hold(packet) {
			p.kept[d] = append(p.kept[d], heldPacket{packet, send})
		} else {
			on = append(on, packet...)
		}
	}
	if len(on) > 0 {
		// An Initial must be in a datagram of 1200 bytes; what follows it need not mean
		// anything.
		for d == fromClient && isLong(on) && len(on) < 1200 {
			on = append(on, 0)
		}
		send(on)
	}
}

// hold holds packets of one direction back that are so.
func (p *udpProxy) hold(d way, is func([]byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[d] = is
}

// release sends on what is held, and holds nothing any more.
func (p *udpProxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = [2]func([]byte) bool{}
	for d := range p.kept {
		for _, h := range p.kept[d] {
			h.send(h.packet)
		}
		p.kept[d] = nil
	}
}

// releaseFrom sends on what is held of one way, and holds nothing of it any more.
func (p *udpProxy) releaseFrom(d way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[d] = nil
	for _, h := range p.kept[d] {
		h.send(h.packet)
	}
	p.kept[d] = nil
}

// releaseOnly sends on what is so, and goes on to hold.
func (p *udpProxy) releaseOnly(is func([]byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range p.kept {
		var left []heldPacket
		for _, h := range p.kept[d] {
			if is(h.packet) {
				h.send(h.packet)
			} else {
				left = append(left, h)
			}
		}
		p.kept[d] = left
	}
}

// held is how many packets are held.
func (p *udpProxy) held(d way) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept[d])
}

// seen is how many packets came that are so.
func (p *udpProxy) seen(d way, is func([]byte) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.packets[d] {
		if is(b) {
			n++
		}
	}
	return n
}

// Of the first byte of a packet of QUIC version 1: RFC 9000 section 17.
func isLong(b []byte) bool      { return b[0]&0x80 != 0 }
func is0RTT(b []byte) bool      { return b[0]&0xf0 == 0xd0 }
func isHandshake(b []byte) bool { return b[0]&0xf0 == 0xe0 }
func is1RTT(b []byte) bool      { return b[0]&0xc0 == 0x40 }
func anyPacket([]byte) bool     { return true }

// split takes a datagram apart into packets.
func split(b []byte) (packets [][]byte) {
	for len(b) > 0 {
		n := len(b)
		if isLong(b) {
			if long := longLength(b); long > 0 && long < n {
				n = long
			}
		}
		if b[0]&0x40 != 0 { // else it is padding
			packets = append(packets, append([]byte(nil), b[:n]...))
		}
		b = b[n:]
	}
	return packets
}

// longLength is the length of the packet with a long header that b begins with, 0 when
// it has none.
func longLength(b []byte) int {
	if b[0]&0x30 == 0x30 { // Retry
		return 0
	}
	at := 5
	for range 2 { // connection ids
		if at >= len(b) {
			return 0
		}
		at += 1 + int(b[at])
	}
	if at > len(b) {
		return 0
	}
	varint := func() int {
		v, n, err := quicvarint.Parse(b[at:])
		if err != nil {
			at = len(b)
			return 0
		}
		at += n
		return int(v)
	}
	if b[0]&0x30 == 0 { // Initial
		token := varint()
		at += token
		if at > len(b) {
			return 0
		}
	}
	length := varint()
	return length + at
}
