package gossip

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/authority"
)

// TestSecureGarbage does to a port with TLS what no node does, without a certificate and
// with one: the others go on, over the connections that they have, one more joins through
// that very port, and what is kept for strangers stays bounded.
func TestSecureGarbage(t *testing.T) {
	t.Parallel()
	mine, other := authority.New(t), authority.New(t)
	a := start(t, 1, with(mine.Node(t, local)))
	b := start(t, 2, with(mine.Node(t, local)), seeds(a))
	allSee(t, a, b)
	addr := a.GossipAddr()
	eventually(t, "b has its connection", func() bool { in, _ := a.transport.connections(); return in == 1 })
	first := func() (s *stream) {
		a.transport.mu.Lock()
		defer a.transport.mu.Unlock()
		for o := range a.transport.mu.inbound {
			if s == nil || o.born.Before(s.born) {
				s = o
			}
		}
		return s
	}
	had := first()

	stop := make(chan struct{})
	var wg sync.WaitGroup
	attack := func(f func(r *rand.Rand, c net.Conn)) {
		seed := rand.Uint64()
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			tick := time.NewTicker(5 * time.Millisecond) // leave others some of the machine
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				c, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(patience)) // it is cut long before
				f(r, c)
				_ = c.Close()
			}
		})
	}
	hello := func(conf *tls.Config) func(*rand.Rand, net.Conn) {
		return func(r *rand.Rand, raw net.Conn) {
			c := tls.Client(raw, conf)
			if c.Handshake() == nil {
				_, _ = c.Read(make([]byte, 1))
			}
		}
	}
	careless := other.Node(t, local)
	careless.NextProtos = []string{exchangeProtocol}
	attack(hello(careless))
	attack(hello(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{packetProtocol}}))
	attack(func(r *rand.Rand, c net.Conn) { // noise, and the beginning of a record that is never all there
		_, _ = c.Write(garbage(r, r.IntN(2000)))
		_, _ = c.Write(append([]byte{tlsHandshake, 3, 1, 0x3f, 0xff}, garbage(r, 100)...))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = c.Read(make([]byte, 100))
	})
	// As much as is taken, with a pause where most of that was sent.
	flood := func(r *rand.Rand, c net.Conn) {
		block := garbage(r, 64<<10)
		most := maxStreamBytes / len(block)
		for i := range 2 * most {
			if _, err := c.Write(block); err != nil {
				return
			}
			if i == most*3/4 {
				select {
				case <-stop:
				case <-time.After(200 * time.Millisecond):
				}
			}
		}
	}
	attack(func(r *rand.Rand, c net.Conn) {
		_, _ = c.Write([]byte{10})
		flood(r, c)
	})
	// With a certificate and without the token: packets that are too long, slow ones, and an
	// exchange that goes on.
	s := secured(t, mine)
	inside := func(protocol string, f func(r *rand.Rand, c net.Conn)) func(*rand.Rand, net.Conn) {
		return func(r *rand.Rand, raw net.Conn) {
			if c, err := s.dialed(t.Context(), raw, addr, protocol); err == nil {
				f(r, c)
			}
		}
	}
	attack(inside(packetProtocol, func(r *rand.Rand, c net.Conn) {
		n := r.IntN(maxDatagram)
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(n)), garbage(r, n)...))
		_, _ = c.Write([]byte{0xff, 0xff})
		_, _ = io.Copy(io.Discard, c)
	}))
	attack(inside(packetProtocol, func(r *rand.Rand, c net.Conn) { _, _ = c.Write([]byte{0, 100, 1}) }))
	attack(inside(exchangeProtocol, func(r *rand.Rand, c net.Conn) {
		_, _ = c.Write(binary.BigEndian.AppendUint32([]byte{10}, 20<<20))
		flood(r, c)
	}))
	idle := idlers{addr: addr}
	defer idle.leave()
	most, unread := 0, int64(0)
	watch := func() {
		a.transport.mu.Lock()
		most = max(most, len(a.transport.mu.oldest))
		a.transport.mu.Unlock()
		unread = max(unread, a.transport.unread.Load())
	}
	state := ""
	defer func() {
		if t.Failed() {
			t.Log(state)
		}
	}()
	eventually(t, "all kinds of garbage arrive", func() bool {
		idle.come(t)
		watch()
		state = fmt.Sprint(most, unread, a.log.lines("level=WARN", "peer=127.0.0.1"))
		return most == maxStreams && unread > 1<<20 &&
			len(a.log.lines("level=WARN", "peer=127.0.0.1", "does not speak TLS")) > 0 &&
			len(a.log.lines("level=WARN", "peer=127.0.0.1", "does not take the peer's certificate")) > 0 &&
			len(a.log.lines("level=WARN", "peer=127.0.0.1", "internal_auth_token")) > 0
	})
	c := start(t, 3, with(mine.Node(t, local)), seeds(a))
	eventually(t, "one more joins through that port", func() bool {
		watch()
		return c.sees(a, b, c) &&
			b.sees(a, b, c)
	})
	if first() != had {
		t.Error("the connection of a member was cut")
	}
	close(stop)
	idle.leave()
	wg.Wait()
	if most > maxStreams {
		t.Errorf("%d connections were open, the limit is %d", most, maxStreams)
	}
	// One that goes over the limit has read once when it is cut: a record of TLS at most.
	if limit := int64(maxUnread + maxStreams*(17<<10)); unread > limit {
		t.Errorf("%d bytes of strangers were kept, the limit is %d", unread, limit)
	}
	if n := len(a.log.lines("level=WARN", "peer=127.0.0.1")); n > 5 {
		t.Errorf("%d warnings about one host, want one of each kind", n)
	}
	allSee(t, a, b, c)
	eventually(t, "nothing is kept", func() bool { return a.transport.unread.Load() == 0 })
}

// TestSecureHandshakes: a listener takes nothing older, nobody without a certificate, and
// nobody who does not say what for; and who does nothing is cut.
func TestSecureHandshakes(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	weak := mine.Node(t, local)
	weak.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: weak.Certificates, NextProtos: []string{exchangeProtocol}}, nil
	}
	sec, err := newSecure(weak, func(addr string) []string { return hostsOf(addr) })
	if err != nil {
		t.Fatal(err)
	}
	sec.handshake = 100 * time.Millisecond
	a := carrier(t, "", sec)
	slow := secured(t, mine)
	b := carrier(t, "", slow)
	for name, change := range map[string]func(*tls.Config){
		"older":          func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"no certificate": func(c *tls.Config) { c.Certificates = nil },
		"no protocol":    func(c *tls.Config) { c.NextProtos = nil },
		"another's":      func(c *tls.Config) { c.NextProtos = []string{"pathlockd-link"} },
	} {
		conf := mine.Node(t, local)
		conf.NextProtos = []string{exchangeProtocol}
		change(conf)
		raw, err := net.Dial("tcp", b.told.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.SetDeadline(time.Now().Add(patience))
		if n, err := tls.Client(raw, conf).Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: let in", name)
		}
		_ = raw.Close()
	}
	conf := mine.Node(t, local)
	conf.Certificates, conf.NextProtos = nil, []string{exchangeProtocol}
	raw, err := net.Dial("tcp", a.told.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.SetDeadline(time.Now().Add(patience))
	if n, err := tls.Client(raw, conf).Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("what the operator's configuration answers gets around the rules")
	}
	_ = raw.Close()
	half, err := net.Dial("tcp", a.told.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = half.Close() }()
	_, _ = half.Write([]byte{tlsHandshake})
	_ = half.SetReadDeadline(time.Now().Add(patience))
	// A reset is an end too: the byte may not have been read.
	if _, err := io.Copy(io.Discard, half); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who does nothing is not cut: %v", err)
	}
	select {
	case <-a.streams:
		t.Error("a stranger was handed over")
	case <-b.streams:
		t.Error("a stranger was handed over")
	default:
	}
}

// TestSecureTurnsAway: who speaks no TLS is answered so, and may go on sending what it has
// begun, or it might never read the answer.
func TestSecureTurnsAway(t *testing.T) {
	t.Parallel()
	a := carrier(t, "", secured(t, authority.New(t), func(s *secure) { s.handshake = patience }))
	c, err := net.Dial("tcp", a.told.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	block := make([]byte, 64<<10)
	answer := make([]byte, len(tlsRefusal))
	if _, err := c.Write(append([]byte{10}, block...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != string(tlsRefusal) {
		t.Fatalf("the answer is %x, %v", answer, err)
	}
	for range maxStreamBytes/len(block) - 4 {
		if _, err := c.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = c.Write(bytes.Repeat(block, 8))
	if _, err := c.Read(answer); err == nil {
		t.Error("it is not cut")
	}
}

// TestSecureCloses: a transport that is closed cuts what is open, also what is only half so.
func TestSecureCloses(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a, b := carrier(t, "", secured(t, mine)), carrier(t, "", secured(t, mine))
	send(t, a, b, []byte("packet"))
	for packet(b) != nil { // or it would wait for who takes it, not for its peer
	}
	half, err := net.Dial("tcp", b.told.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = half.Close() }()
	quiet := deaf(t)
	if _, err := a.WriteTo([]byte("packet"), quiet); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are open", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(b.mu.open) == 2 && len(a.mu.open) == 2
	})
	for _, tr := range []*transport{b, a} {
		done := make(chan struct{})
		go func() {
			_ = tr.Shutdown()
			tr.conns.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("it waits for a peer")
		}
		if len(tr.mu.open)+len(tr.mu.oldest)+len(tr.mu.inbound) != 0 {
			t.Error("connections are kept")
		}
	}
}
