package gossip

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Packets over TLS. Each peer that is written to has a lane: a queue, a goroutine and
// a connection that packets go out by, each behind its length in two bytes. Answers come
// by the peer's own. A packet that cannot go soon is lost, as one over UDP may be.

const (
	// maxLanes is how many peers are written to at once, and how many connections with
	// packets come in. A packet to one more is lost; of those that come in, the one is
	// cut that was silent for longest.
	maxLanes = maxMembers
	// laneQueue is how many packets wait for one peer. More are lost.
	laneQueue = 64
	// laneAgain is the least time between two dials of a lane.
	laneAgain = 250 * time.Millisecond
	// laneStall is how long a packet may take from its first byte to its last, and what
	// was written to be acknowledged.
	laneStall = 5 * time.Second
	// frameHead is how many bytes tell the length of a packet.
	frameHead = 2
)

// lane is the way of packets to one gossip address. Its goroutine has the fields that
// follow queue for itself.
type lane struct {
	t     *transport
	to    string
	queue chan []byte // frames, capacity laneQueue

	conn  *tls.Conn     // nil: not connected
	ended chan struct{} // closed when conn's peer hung up
	next  time.Time     // not to be dialed before
}

// carry hands a packet to a peer's lane. It blocks on nothing.
func (t *transport) carry(b []byte, to netip.AddrPort) error {
	if len(b) == 0 || len(b) > maxDatagram {
		return fmt.Errorf("send gossip: a packet of %d bytes, 1 to %d may be sent", len(b), maxDatagram)
	}
	frame := append(binary.BigEndian.AppendUint16(make([]byte, 0, frameHead+len(b)), uint16(len(b))), b...)
	t.mu.Lock() // a lane does not end between being found and being given something
	defer t.mu.Unlock()
	if t.mu.closed {
		return errClosed
	}
	addr := to.String()
	l := t.mu.lanes[addr]
	if l == nil {
		if len(t.mu.lanes) >= maxLanes {
			return nil
		}
		l = &lane{t: t, to: addr, queue: make(chan []byte, laneQueue)}
		t.mu.lanes[addr] = l
		t.wg.Add(1)
		go l.run()
	}
	select {
	case l.queue <- frame:
	default:
	}
	return nil
}

// run sends packets until none came for a while.
func (l *lane) run() {
	defer l.t.wg.Done()
	defer l.hangUp()
	idle := time.NewTimer(l.t.secure.idle)
	defer idle.Stop()
	for {
		select {
		case <-l.t.ctx.Done():
			return
		case <-l.ended:
			l.hangUp()
		case <-idle.C:
			if l.retire() {
				return
			}
			idle.Reset(l.t.secure.idle)
		case frame := <-l.queue:
			idle.Reset(l.t.secure.idle)
			l.send(frame)
		}
	}
}

// retire ends the lane, unless it was given something just now.
func (l *lane) retire() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if len(l.queue) > 0 {
		return false
	}
	delete(l.t.mu.lanes, l.to)
	return true
}

// send sends one packet, or loses it.
func (l *lane) send(frame []byte) {
	select {
	case <-l.ended: // what is written to it would be lost without a word
		l.hangUp()
	default:
	}
	if l.conn == nil && !l.connect() {
		for range len(l.queue) { // they are as late
			<-l.queue
		}
		return
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(laneStall))
	if _, err := l.conn.Write(frame); err != nil {
		l.hangUp()
		return
	}
	l.t.out.packets.Add(1)
}

// connect dials the peer, unless it did a moment ago.
func (l *lane) connect() bool {
	now := time.Now()
	if now.Before(l.next) {
		return false
	}
	conn, err := l.t.dialTLS(l.to, l.t.dial+l.t.secure.handshake, packetProtocol)
	l.next = now.Add(laneAgain)
	if err != nil {
		if errors.Is(err, ErrTLS) && l.t.ctx.Err() == nil {
			l.t.log.warn("no packets"+l.to, "no gossip with another node", l.to, err)
		}
		return false
	}
	ended := make(chan struct{})
	l.conn, l.ended = conn, ended
	l.t.wg.Add(1) // its own lane is counted, so nobody is done waiting
	go func() {
		defer l.t.wg.Done()
		_, _ = conn.Read(make([]byte, 1)) // nothing is ever said
		close(ended)
	}()
	return true
}

func (l *lane) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.conn, l.ended = nil, nil
}

// unload takes packets in from a connection that came in, until it ends.
func (t *transport) unload(conn *tls.Conn, s *stream) error {
	t.promote(s)
	var head [frameHead]byte
	for {
		s.heard.Store(t.turn.Add(1))
		// Its peer, if it lives, hangs up before.
		if err := conn.SetReadDeadline(time.Now().Add(2 * t.secure.idle)); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		now := time.Now()
		n := int(binary.BigEndian.Uint16(head[:]))
		if n == 0 || n > maxDatagram {
			return fmt.Errorf("a packet of %d bytes, 1 to %d may be sent", n, maxDatagram)
		}
		if err := conn.SetReadDeadline(now.Add(laneStall)); err != nil {
			return err
		}
		p := &memberlist.Packet{Buf: make([]byte, n), From: conn.RemoteAddr(), Timestamp: now}
		if _, err := io.ReadFull(conn, p.Buf); err != nil {
			return err
		}
		select {
		case t.packets <- p:
		case <-t.ctx.Done():
			return errClosed
		}
	}
}

// promote counts a connection no longer among those of strangers, but among those with
// packets, and makes room there.
func (t *transport) promote(s *stream) {
	s.unlimit()
	s.heard.Store(t.turn.Add(1))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropOldest(s)
	if len(t.mu.inbound) >= maxLanes {
		var silent *stream
		for o := range t.mu.inbound {
			if silent == nil || o.heard.Load() < silent.heard.Load() {
				silent = o
			}
		}
		_ = silent.Conn.Close() // its reader ends, and closes it properly
		delete(t.mu.inbound, silent)
	}
	t.mu.inbound[s] = struct{}{}
}
