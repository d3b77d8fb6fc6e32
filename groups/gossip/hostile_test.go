package gossip

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// garbage fills b with bytes from a seed.
func garbage(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestGarbage sends what no node sends to a member's port, over UDP and TCP, more
// connections than it takes, and more bytes: the others go on, one more joins through
// that very port, and what is kept for strangers stays bounded.
func TestGarbage(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	addr := a.GossipAddr()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	attack := func(f func(r *rand.Rand)) {
		seed := rand.Uint64()
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			tick := time.NewTicker(time.Millisecond) // leave others some of the machine
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					f(r)
				}
			}
		})
	}
	// Datagrams: noise, of the right version, of every message type, empty, too long.
	attack(func(r *rand.Rand) {
		c, err := net.Dial("udp", addr)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		noise := garbage(r, r.IntN(1400))
		_, _ = c.Write(noise)
		_, _ = c.Write(append([]byte{1}, noise...))
		_, _ = c.Write(append([]byte{byte(r.IntN(256))}, noise...))
		_, _ = c.Write(nil)
		_, _ = c.Write(make([]byte, 60_000))
	})
	// Connections that say something short and wait.
	attack(func(r *rand.Rand) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Write(append([]byte{byte(r.IntN(16))}, garbage(r, r.IntN(100))...))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = c.Read(make([]byte, 100))
	})
	// Connections that announce 20 MiB and send as much as is taken.
	for range 4 {
		attack(func(r *rand.Rand) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience)) // it is cut long before
			_, _ = c.Write(binary.BigEndian.AppendUint32([]byte{10}, 20<<20))
			block := garbage(r, 64<<10)
			for range 2 * maxStreamBytes / len(block) {
				if _, err := c.Write(block); err != nil {
					return
				}
			}
		})
	}
	idle := idlers{addr: addr}
	defer idle.leave()
	most, unread := 0, int64(0)
	watch := func() {
		a.transport.mu.Lock()
		most = max(most, len(a.transport.mu.oldest))
		a.transport.mu.Unlock()
		unread = max(unread, a.transport.unread.Load())
	}
	eventually(t, "all kinds of garbage arrive", func() bool {
		idle.come(t)
		watch()
		return most == maxStreams && unread > 1<<20 && len(a.log.lines("level=WARN", "peer=127.0.0.1")) > 0
	})
	c := start(t, 3, seeds(a))
	eventually(t, "one more joins through that port", func() bool {
		watch()
		return c.sees(a, b, c) &&
			b.sees(a, b, c)
	})
	close(stop)
	wg.Wait()
	idle.leave()
	if most > maxStreams {
		t.Errorf("%d connections were open, the limit is %d", most, maxStreams)
	}
	// One that goes over the limit has read into its buffer once when it is cut.
	if limit := int64(maxUnread + maxStreams*maxStreamRead); unread > limit {
		t.Errorf("%d bytes of strangers were kept, the limit is %d", unread, limit)
	}
	if n := len(a.log.lines("level=WARN", "refused gossip")); n != 1 {
		t.Errorf("%d warnings about one host, want 1", n)
	}
	allSee(t, a, b, c)
	eventually(t, "nothing is kept", func() bool { return a.transport.unread.Load() == 0 })
}

// idlers are more connections than are taken, which say nothing. Those that were cut are
// followed by others: on a slow machine they are not all there at once else.
type idlers struct {
	addr string
	open []net.Conn
}

func (i *idlers) come(t *testing.T) {
	t.Helper()
	for range maxStreams / 2 {
		c, err := net.Dial("tcp", i.addr)
		if err != nil {
			t.Fatal(err)
		}
		i.open = append(i.open, c)
	}
	for len(i.open) > 4*maxStreams {
		_ = i.open[0].Close()
		i.open = i.open[1:]
	}
}

func (i *idlers) leave() {
	for _, c := range i.open {
		_ = c.Close()
	}
	i.open = nil
}

// TestOldestStreamIsCut opens one connection too many.
func TestOldestStreamIsCut(t *testing.T) {
	t.Parallel()
	tr := newDialer(t.Context(), time.Second, nil, nil)
	defer func() { _ = tr.Shutdown() }()
	var clients, servers []net.Conn
	began := time.Now()
	open := func(after time.Duration) bool {
		if !tr.room(began.Add(after)) {
			return false
		}
		client, server := net.Pipe()
		s := &stream{Conn: server, t: tr, born: began.Add(after)}
		if !tr.track(s, true) {
			t.Fatal("closed")
		}
		clients, servers = append(clients, client), append(servers, s)
		return true
	}
	// cut says whether the other side is closed; what is open takes a byte from us only
	// when it is read.
	cut := func(i int) bool {
		_ = clients[i].SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, err := clients[i].Write([]byte{0})
		return errors.Is(err, io.ErrClosedPipe)
	}
	for i := range maxStreams {
		open(time.Duration(i))
	}
	if open(minStreamTime-1) || cut(0) {
		t.Error("a connection was cut before it had its time")
	}
	if !open(minStreamTime) || !cut(0) || cut(1) {
		t.Error("one too many, and not the oldest was cut")
	}
	_ = servers[1].Close() // makes room
	if !open(2*minStreamTime) || cut(2) {
		t.Error("a connection was cut where there was room")
	}
	for _, s := range servers {
		_ = s.Close()
	}
	if len(tr.mu.open)+len(tr.mu.oldest) != 0 {
		t.Error("closed connections are kept")
	}
}

// TestStreamLimits sends one byte more than each limit of streams.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	tr := newDialer(t.Context(), time.Second, nil, nil)
	defer func() { _ = tr.Shutdown() }()
	var all []*stream
	read := func(total int) error {
		client, server := net.Pipe()
		s := &stream{Conn: server, t: tr}
		if !tr.track(s, true) {
			t.Fatal("closed")
		}
		all = append(all, s)
		go func() {
			_, _ = client.Write(make([]byte, total))
			_ = client.Close()
		}()
		buf := make([]byte, 4096)
		for {
			if _, err := s.Read(buf); err != nil {
				return err
			}
		}
	}
	if err := read(maxStreamBytes); errors.Is(err, errStreamTooLong) {
		t.Error("a stream of the limit is refused")
	}
	if err := read(maxStreamBytes + 1); !errors.Is(err, errStreamTooLong) {
		t.Errorf("a stream above the limit: %v", err)
	}
	// Neither was closed: six more fill what all of them may have.
	var err error
	for range maxUnread/maxStreamBytes - 1 {
		err = read(maxStreamBytes)
	}
	if !errors.Is(err, errUnread) {
		t.Errorf("streams above the limit of all: %v", err)
	}
	for _, s := range all {
		_ = s.Close()
	}
	if kept := tr.unread.Load(); kept != 0 || len(tr.mu.open)+len(tr.mu.oldest) != 0 {
		t.Errorf("%d bytes are kept of closed streams", kept)
	}
}

// TestDatagramLimit sends a datagram of the limit, and one byte more.
func TestDatagramLimit(t *testing.T) {
	t.Parallel()
	tr, err := newTransport(netip.MustParseAddrPort("127.0.0.1:0"), netip.AddrPort{}, time.Second, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.Shutdown() }()
	c, err := net.Dial("udp", tr.told.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// Both again, as datagrams may be lost: the longer one first, each time.
	eventually(t, "the one that may pass", func() bool {
		for _, n := range []int{maxDatagram + 1, maxDatagram} {
			if _, err := c.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case p := <-tr.packets:
			if len(p.Buf) > maxDatagram {
				t.Fatal("a longer one passed")
			}
			return true
		case <-time.After(time.Second):
			return false
		}
	})
}
