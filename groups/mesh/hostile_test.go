package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// TestRefusals: who must not connect does not, and both ends say why.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		words  string
	}{
		"another token": {func(c *Config) { c.Token = "another token, just as long as it." },
			"does not have this cluster's internal_auth_token"},
		"another cluster": {func(c *Config) { c.Cluster = clusterB }, "wrong seed_nodes, address or data_dir"},
		"other formats":   {func(c *Config) { c.FormatMin, c.FormatMax = 2, 2 }, "upgrade one step at a time"},
		"a format in use": {func(c *Config) { c.FormatMax, c.InUse = 2, func() uint32 { return 2 } },
			"it is node node-2 that needs a newer version"},
		"a format to use": {func(c *Config) { c.FormatMax, c.InUse = 1, func() uint32 { return 1 } },
			"no room to note format 1"},
		"my node id": {func(c *Config) { c.Node = "node-2" }, "node_id node-2 is used by two nodes"},
		"my host id": {func(c *Config) { c.Host = "host-2" }, "one's data_dir is a copy"},
		"myself":     {func(c *Config) { c.Node, c.Host = "node-2", "host-2" }, "was reached by itself"},
		"another's id": {func(c *Config) { c.Node = "node-3" },
			"node_id node-3 is used by two nodes, with raft host ids"},
		"not admitted": {func(c *Config) { c.Node = "node-13" }, "was evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, func(c *Config) {
				c.FormatMax, c.Raise = 1, func(format uint32) error {
					return fmt.Errorf("no room to note format %d",
						format)
				}
				c.Admit = func(p link.Peer) error {
					if p.Node == "node-13" {
						return errors.New("node-13 was evicted")
					}
					return nil
				}
			})
			open(t, 3).to(t, b)
			a := open(t, 1, c.change)
			eventually(t, "it in both logs", func() bool {
				if a.Conn(b.host, b.Addr()) != nil {
					t.Fatal("connected")
				}
				return strings.Contains(a.log.String(), c.words) && strings.Contains(b.log.String(), c.words)
			})
			if len(a.opened) != 0 || len(b.opened) != 1 {
				t.Error("it was opened")
			}
		})
	}
}

// TestOperatorTLS: the operator's certificates serve without a token, and others do not.
func TestOperatorTLS(t *testing.T) {
	with := func(c *tls.Config) func(*Config) {
		return func(o *Config) { o.Token, o.TLS = "", c }
	}
	one := selfSigned(t)
	b := open(t, 2, with(one))
	open(t, 1, with(one)).to(t, b).Send([]byte("hello"))
	within(t, "a frame", b.frames)
	for _, a := range []*end{open(t, 3, with(selfSigned(t))), open(t, 4)} {
		eventually(t, "a failure", func() bool {
			if a.Conn(b.host, b.Addr()) != nil {
				t.Fatal("connected with another certificate")
			}
			return strings.Contains(a.log.String(), "no connection to another node")
		})
	}
}

// TestGarbageBefore: what is no TLS gets nowhere and harms nobody.
func TestGarbageBefore(t *testing.T) {
	b := open(t, 2)
	for _, words := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", string(pattern(1, 100_000)),
		"PLKNODE\n"} {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, words)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, net.ErrClosed) &&
			strings.Contains(err.Error(), "timeout") {
			t.Errorf("%.10q: %v", words, err)
		}
		_ = c.Close()
	}
	b.logged(t, "is no pathlockd node")
	open(t, 1).to(t, b)
	within(t, "a guest", b.opened)
	if b.live() != 1 {
		t.Errorf("%d connections live", b.live())
	}
}

// stranger is a connection to an end by a node that is let in and then says what it likes.
func stranger(t testing.TB, b *end, n int) *link.Conn {
	t.Helper()
	l, err := link.New(link.Config{Cluster: clusterA, Node: "stranger", Host: "host-" + string(rune('a'+n)),
		Token: token})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.OpenDoor("127.0.0.1:0", func(*link.Conn) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c, err := d.Dial(context.Background(), "", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestGarbageAfter: what is no frame ends the connection, and its sender is told.
func TestGarbageAfter(t *testing.T) {
	for name, c := range map[string]struct{ bytes, words string }{
		"too long":        {"\x01\x00\x00\x01", "a frame of 16777217 bytes, at most 16777216 are allowed"},
		"much too long":   {"GET / HTTP/1.1", "at most"},
		"long reason":     {"\x80\x00\x02\x01", "a reason of 513 bytes"},
		"unfit for a log": {"\x80\x00\x00\x03a\nb", `a\nb`},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2)
			s := stranger(t, b, 0)
			if _, err := s.Write([]byte("\x00\x00\x00\x02ok" + c.bytes)); err != nil {
				t.Fatal(err)
			}
			if got := within(t, "the frame before it", b.frames); got != "ok" {
				t.Fatal(got)
			}
			got := within(t, "the end", b.closed)
			if !strings.Contains(got.err.Error(), c.words) {
				t.Error(got.err)
			}
			b.logged(t, "connection from node stranger closed")
			_ = s.SetReadDeadline(time.Now().Add(patience))
			heard, _ := io.ReadAll(s)
			if errors.Is(got.err, errTooLong) != strings.Contains(string(heard), c.words) {
				t.Errorf("it was told %q", heard)
			}
		})
	}
}

// TestTooLong: a frame that is too long is refused by who sends it, at both ends.
func TestTooLong(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	if a.to(t, b).Send(make([]byte, MaxFrameBytes+1)) {
		t.Fatal("sent")
	}
	if got := within(t, "the end here", a.closed); !errors.Is(got.err, errTooLong) {
		t.Error(got.err)
	}
	if got := within(t, "the end there", b.closed); !errors.Is(got.err, errByPeer) ||
		!strings.Contains(got.err.Error(), "at most 16777216 are allowed") {
		t.Error(got.err)
	}
	if len(b.frames) != 0 {
		t.Error("something of it arrived")
	}
}

// TestNeverReads: a peer that does not read costs the backlog and then the connection.
func TestNeverReads(t *testing.T) {
	b := open(t, 2)
	// On a machine that is busy the kernel gives the peer up, which takes it 5 s, before
	// the backlog is full. Then it is filled again.
	for end := time.Now().Add(4 * patience); ; {
		began := time.Now()
		err := neverReads(t, b)
		if errors.Is(err, errBacklog) {
			return
		}
		if time.Since(began) < 4*time.Second || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// neverReads sends to a peer that reads nothing until the connection ends, and answers why.
func neverReads(t *testing.T, b *end) error {
	s := stranger(t, b, 0)
	defer s.Close()
	c := within(t, "a guest", b.opened)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := pattern(1, 100_000)
	var sent int
	for c.Send(f) {
		if sent += len(f); sent > 2*maxBacklogBytes {
			t.Fatalf("%d bytes were sent to a peer that reads nothing", sent)
		}
	}
	runtime.ReadMemStats(&after)
	if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); more > maxBacklogBytes*3/2 {
		t.Errorf("%d bytes of heap for a backlog of %d", more, maxBacklogBytes)
	}
	err := within(t, "the end", b.closed).err
	if errors.Is(err, errBacklog) && sent < maxBacklogBytes-len(f) {
		t.Errorf("only %d bytes were taken", sent)
	}
	return err
}

// TestStall: one that reads nothing of little is found out as well.
func TestStall(t *testing.T) {
	b := open(t, 2, func(c *Config) { c.timing.stall = 200 * time.Millisecond })
	stranger(t, b, 0)
	c := within(t, "a guest", b.opened)
	for range 320 {
		c.Send(pattern(1, 100_000))
	}
	if got := within(t, "the end", b.closed); got.err == nil || !strings.Contains(got.err.Error(), "write: ") {
		t.Error(got.err)
	}
}

// TestHalfOpen: a thousand connections that say nothing cost a bounded number of
// goroutines, and keep out nobody who comes from elsewhere.
func TestHalfOpen(t *testing.T) {
	b := open(t, 2)
	before := runtime.NumGoroutine()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 1000 {
		c, err := from.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	b.logged(t, "too many that have not said hello")
	if n := runtime.NumGoroutine() - before; n > 200 {
		t.Errorf("%d goroutines for them", n)
	}
	a := open(t, 1)
	a.to(t, b).Send([]byte("hello"))
	within(t, "a frame", b.frames)
}
