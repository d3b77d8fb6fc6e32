package mesh

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// pattern answers n bytes that depend on i.
func pattern(i, n int) []byte {
	b := make([]byte, n)
	for at := range b {
		b[at] = byte(i + at*31 + at>>8)
	}
	return b
}

// TestFrames: what arrives is what was sent, both ways, for lengths around every buffer;
// and each end knows the other.
func TestFrames(t *testing.T) {
	a, b := open(t, 1), open(t, 2, answering)
	c := a.to(t, b)
	lengths := []int{
		0, 1, 100, recordBytes - frameHead - 1, recordBytes - frameHead, recordBytes, 2*recordBytes + 7,
		keptRead - frameHead, keptRead, trusted, trusted + 1, MaxFrameBytes, 3, 0,
	}
	for i, n := range slices.Concat(lengths, lengths) {
		f := pattern(i, n)
		if !c.Send(f) {
			t.Fatal("not sent", c.reason())
		}
		clear(f) // it was copied
		if got := within(t, "a frame", a.frames); got != string(pattern(i, n)) {
			t.Fatalf("frame %d of %d bytes came as one of %d, or changed", i, n, len(got))
		}
	}
	guest := within(t, "a guest", b.opened)
	if p := guest.Peer(); p.Node != "node-1" || p.Host != "host-1" || guest.Dialed() {
		t.Errorf("the listener sees %+v, dialed %v", p, guest.Dialed())
	}
	if p := c.Peer(); p.Node != "node-2" || p.Host != "host-2" || !c.Dialed() {
		t.Errorf("the dialer sees %+v, dialed %v", p, c.Dialed())
	}
}

// TestOrder: many senders share one connection; of each the frames keep their order, and
// all arrive once.
func TestOrder(t *testing.T) {
	const senders, each = 8, 5000
	a, b := open(t, 1), open(t, 2)
	var all sync.WaitGroup
	var used sync.Map
	for s := range senders {
		all.Go(func() {
			c := a.to(t, b)
			used.Store(c, true)
			for i := range each {
				f := binary.BigEndian.AppendUint32([]byte{byte(s)}, uint32(i))
				if !c.Send(append(f, pattern(0, i%300)...)) {
					t.Error("not sent", c.reason())
					return
				}
			}
		})
	}
	next := make([]uint32, senders)
	for range senders * each {
		f := within(t, "a frame", b.frames)
		s, i := f[0], binary.BigEndian.Uint32([]byte(f[1:]))
		if i != next[s] || len(f) != 5+int(i)%300 {
			t.Fatalf("sender %d: frame %d of %d bytes, expected frame %d", s, i, len(f), next[s])
		}
		next[s]++
	}
	all.Wait()
	n := 0
	used.Range(func(any, any) bool { n++; return true })
	if n != 1 || b.live() != 1 {
		t.Errorf("%d connections were answered, %d came in", n, b.live())
	}
}

// TestEachItsOwn: the connection that the peer dialed is not the one that this node did.
func TestEachItsOwn(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	there, back := a.to(t, b), b.to(t, a)
	there.Send([]byte("there"))
	back.Send([]byte("back"))
	if x, y := within(t, "a frame", b.frames), within(t, "a frame", a.frames); x != "there" || y != "back" {
		t.Fatal(x, y)
	}
	eventually(t, "two connections", func() bool { return a.live() == 2 && b.live() == 2 })
}

// TestClose: what was sent before Close arrives, both ends are told once and why, and
// nothing is sent or handed on after it.
func TestClose(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	c := a.to(t, b)
	why := errors.New("that was all")
	for range 100 {
		c.Send(pattern(1, 10_000))
	}
	c.Close(why)
	c.Close(errors.New("another reason"))
	if c.Send([]byte("late")) {
		t.Error("sent after Close")
	}
	if got := within(t, "the end here", a.closed); got.c != c || !errors.Is(got.err, why) {
		t.Error(got.err)
	}
	got := within(t, "the end there", b.closed)
	if !errors.Is(got.err, errByPeer) || !strings.Contains(got.err.Error(), "that was all") {
		t.Error(got.err)
	}
	if len(b.frames) != 100 {
		t.Errorf("%d frames of 100 arrived", len(b.frames))
	}
	b.logged(t, "that was all")
	if d := a.to(t, b); d == c {
		t.Error("the closed connection was answered")
	}
	if len(a.closed) != 0 || len(b.closed) != 0 {
		t.Error("told twice")
	}
}

// TestCloseWhileReading: of frames that came together none is handed on after Close, and
// the reason reaches a peer that is busy sending.
func TestCloseWhileReading(t *testing.T) {
	var n atomic.Int32
	a, b := open(t, 1), open(t, 2, func(c *Config) {
		c.Frame = func(c *Conn, _ []byte) { n.Add(1); c.Close(errors.New("one is enough")) }
	})
	for round := range int32(7) { // each ends soon, so the next dial waits longer
		c := a.to(t, b)
		f := pattern(1, 1000)
		for i := 0; i < 20_000 && c.Send(f); i++ {
		}
		within(t, "the end there", b.closed)
		if got := within(t, "the end here", a.closed); !errors.Is(got.err, errByPeer) ||
			!strings.Contains(got.err.Error(), "one is enough") {
			t.Fatal(got.err)
		}
		if n.Load() != round+1 {
			t.Fatalf("%d frames in %d rounds", n.Load(), round+1)
		}
	}
}

// TestMeshClose: both ends of each connection are told, and Closed was called for all
// when Close returns.
func TestMeshClose(t *testing.T) {
	a, b, other := open(t, 1), open(t, 2), open(t, 3)
	a.to(t, b)
	other.to(t, a)
	within(t, "a guest", b.opened)
	eventually(t, "a guest of its own", func() bool { return a.live() == 2 })
	if err := a.Mesh.Close(); err != nil {
		t.Fatal(err)
	}
	if len(a.closed) != 2 || a.live() != 0 {
		t.Errorf("%d of 2 ends were told, %d live", len(a.closed), a.live())
	}
	for _, e := range []*end{a, a, b, other} {
		got := within(t, "an end", e.closed)
		if !errors.Is(got.err, errClosed) || errors.Is(got.err, errByPeer) != (e != a) {
			t.Error(got.err)
		}
	}
	if a.enlist(a.newConn(nil, false)) {
		t.Error("a closed mesh takes a connection in")
	}
	if a.Conn(b.host, b.Addr()) != nil || a.Conn("new", b.Addr()) != nil || len(a.mu.routes) != 0 {
		t.Error("a closed mesh connects")
	}
	if s := b.log.String() + other.log.String(); strings.Contains(s, "WARN") {
		t.Error("a peer that stops is warned of:", s)
	}
}

// TestCallbacks: what they may call does not deadlock: Conn, Send and Close.
func TestCallbacks(t *testing.T) {
	var a, b *end
	var ready sync.WaitGroup
	ready.Add(1)
	var rounds atomic.Int32
	done := make(chan struct{})
	a = open(t, 1, func(c *Config) {
		c.Opened = func(c *Conn) {
			ready.Wait()
			if a.Conn(b.host, b.Addr()) != nil {
				t.Error("answered before Opened returned")
			}
			c.Send([]byte("first"))
		}
		c.Frame = func(c *Conn, f []byte) {
			c.Close(errors.New("enough"))
			if c.Send(f) || a.Conn(b.host, b.Addr()) == c {
				t.Error("it lives on")
			}
		}
		c.Closed = func(c *Conn, _ error) {
			if c.Send(nil) || a.Conn(b.host, b.Addr()) != nil {
				t.Error("it lives on")
			}
			if rounds.Add(1) == 4 {
				close(done)
			}
		}
	})
	b = open(t, 2, answering)
	ready.Done()
	a.Conn(b.host, b.Addr())
	within(t, "four rounds", done)
}

// TestConfig: what is wrong is said at the start; a node alone has no peers.
func TestConfig(t *testing.T) {
	frame := func(*Conn, []byte) {}
	for _, c := range []struct {
		config Config
		words  string
	}{
		{Config{Cluster: "c", Node: "n", Host: "h"}, "Frame must be set"},
		{Config{Node: "n", Host: "h", Frame: frame}, "cluster id"},
		{Config{Cluster: "c", Node: "n", Host: "h", Token: "short", Frame: frame}, "at least 32 bytes"},
		{Config{Cluster: "c", Node: "n", Host: "h", Token: token, Listen: "127.0.0.1:no-port", Frame: frame},
			"link_addr"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q is not in: %v", c.words, err)
		}
	}
	b := open(t, 2)
	alone := open(t, 1, func(c *Config) { c.Token = "" })
	if alone.Addr() != "" || alone.Conn(b.host, b.Addr()) != nil || len(alone.mu.routes) != 0 {
		t.Error("a node alone listens or dials")
	}
	unheard := open(t, 1, func(c *Config) { c.Listen = "" })
	if unheard.to(t, b); unheard.Addr() != "" {
		t.Error("listens without an address")
	}
}
