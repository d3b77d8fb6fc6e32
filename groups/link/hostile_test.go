package link

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestWrongToken: it ends in the handshake, and both sides say why.
func TestWrongToken(t *testing.T) {
	a := open(t, 1, quick, func(c *Config) { c.Token = "another token, just as long as it." })
	b := open(t, 2, quick)
	_, err := a.GetConnection(context.Background(), b.link.Addr())
	if !errors.Is(err, ErrToken) {
		t.Fatal(err)
	}
	a.logged(t, "does not have this cluster's internal_auth_token")
	b.logged(t, "does not have this cluster's internal_auth_token")
	if b.guestConns() != 0 {
		t.Fatal("it is a guest")
	}
}

// TestListenerChecksToo: a dialer that accepts any certificate gets no further.
func TestListenerChecksToo(t *testing.T) {
	other, err := tokenTLS("another token, just as long as it.")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{
		"no certificate":      {InsecureSkipVerify: true, NextProtos: []string{protocolName}},
		"another certificate": {InsecureSkipVerify: true, NextProtos: []string{protocolName}, Certificates: other.Certificates},
		"old TLS":             {InsecureSkipVerify: true, NextProtos: []string{protocolName}, MaxVersion: tls.VersionTLS12},
		"another protocol":    {InsecureSkipVerify: true, NextProtos: []string{"h2"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, quick)
			conn, err := tls.Dial("tcp", b.link.Addr(), c)
			if err == nil {
				defer conn.Close()
				h := hello{min: 1, max: 1, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
				_, _ = conn.Write(h.encode())
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				if _, err := readHello(conn); err == nil {
					t.Fatal("was greeted")
				}
			}
			b.logged(t, "internal_auth_token")
		})
	}
}

// TestRefusals: who has the token and must not connect is told why, and both ends
// log it.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		words  string
	}{
		"another cluster": {func(c *Config) { c.Cluster = clusterB }, "wrong seed_nodes, address or data_dir"},
		"my node id":      {func(c *Config) { c.Node = "node-2" }, "node_id node-2 is used by two nodes"},
		"my host id":      {func(c *Config) { c.Host = "host-2" }, "one's data_dir is a copy"},
		"myself":          {func(c *Config) { c.Node, c.Host = "node-2", "host-2" }, "was reached by itself"},
		"not admitted":    {func(c *Config) { c.Node = "node-13" }, "was evicted"},
		"another's id":    {func(c *Config) { c.Node = "node-3" }, "node_id node-3 is used by two nodes, with raft host ids"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, quick, func(c *Config) {
				c.Admit = func(p Peer) error {
					if p.Node == "node-13" {
						return errors.New("node-13 was evicted")
					}
					return nil
				}
			})
			open(t, 3, quick).to(t, b)
			a := open(t, 1, quick, c.change)
			_, err := a.GetConnection(context.Background(), b.link.Addr())
			var r *Refusal
			if !errors.As(err, &r) || !r.ByPeer || !strings.Contains(r.Text, c.words) {
				t.Fatal(err)
			}
			a.logged(t, c.words)
			b.logged(t, c.words)
			eventually(t, "only the good connection", func() bool { return b.guestConns() == 1 })
		})
	}
}

// TestDialerRefuses: the listener would talk, the dialer does not, and says so.
func TestDialerRefuses(t *testing.T) {
	a := open(t, 1, quick, func(c *Config) { c.Admit = func(Peer) error { return errors.New("node-2 was evicted") } })
	b := open(t, 2, quick)
	_, err := a.GetConnection(context.Background(), b.link.Addr())
	var r *Refusal
	if !errors.As(err, &r) || r.ByPeer {
		t.Fatal(err)
	}
	a.logged(t, "node-2 was evicted")
	b.logged(t, "node-2 was evicted")
	eventually(t, "no guest", func() bool { return b.guestConns() == 0 })
}

// greeted is a connection by hand, past the hello.
func greeted(t *testing.T, b *end, kind Kind) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", b.link.Addr(), b.tls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.NetConn().Close() })
	h := hello{min: 1, max: 9, kind: kind, cluster: clusterA, node: "node-1", host: "host-1"}
	if _, err := c.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	if got, err := readHello(c); err != nil || got.verdict != accepted || got.node != "node-2" {
		t.Fatal(got, err)
	}
	if _, err := c.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a guest", func() bool { return b.guestConns() == 1 })
	return c
}

// TestGarbage: what is no frame, and no message, closes the connection and nothing
// else.
func TestGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		kind  Kind
		words string
	}{
		"unknown type": {[]byte{9, 0, 0, 0, 0}, Messages, "unknown type 9"},
		"too long":     {[]byte{frameBatch, 0xff, 0xff, 0xff, 0xff}, Messages, "at most"},
		"long chunk":   {[]byte{frameChunk, 0, 0x40, 0, 1}, Snapshots, "at most 4194304"},
		"full signal":  {[]byte{frameAlive, 0, 0, 0, 1, 0}, Messages, "which has none"},
		"wrong place":  {[]byte{frameChunk, 0, 0, 0, 0}, Messages, "on a connection for messages"},
		"no batch":     {[]byte{frameBatch, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff}, Messages, "a batch of messages"},
		"no chunk":     {[]byte{frameChunk, 0, 0, 0, 3, 0xff, 1, 2}, Snapshots, "a chunk of a snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, quick)
			if _, err := greeted(t, b, c.kind).Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			b.logged(t, c.words)
			eventually(t, "the guest's end", func() bool { return b.guestConns() == 0 })
			if err := open(t, 3, quick).to(t, b).SendMessageBatch(batch(1, 10)); err != nil {
				t.Fatal(err)
			}
			within(t, "a batch of somebody else", b.batches)
		})
	}
}

// TestBadHello: a holder of the token that says something else is closed.
func TestBadHello(t *testing.T) {
	h := hello{min: 1, max: 1, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
	good := h.encode()
	for name, b := range map[string][]byte{
		"magic":  append([]byte("GET / HT"), good[8:]...),
		"length": append([]byte(helloMagic), 0xff, 0xff),
		"short":  append([]byte(helloMagic), 0, 3, 0, 1, 0),
		"text":   append(append([]byte(helloMagic), 0, helloFixed+2), append(make([]byte, helloFixed), 0xff, 0xff)...),
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, 2, quick)
			c, err := tls.Dial("tcp", e.link.Addr(), e.tls)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			e.logged(t, errHello.Error())
		})
	}
}

// FuzzHello: nothing a peer says breaks the decoder, and what it decodes it encodes.
func FuzzHello(f *testing.F) {
	h := hello{min: 1, max: 2, kind: Messages, cluster: clusterA, node: "n", host: "h", text: "why", proof: "\x00\xff"}
	f.Add(h.encode()[10:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		again, err := decodeHello(h.encode()[10:])
		if len(h.cluster) <= maxNameBytes && len(h.node) <= maxNameBytes && len(h.host) <= maxNameBytes && len(h.text) <= maxTextBytes && (err != nil || again != h) {
			t.Fatalf("%+v is decoded as %+v, %v", h, again, err)
		}
	})
}

// TestSilentListener: who takes connections and says nothing holds a dial up for the
// handshake's time only.
func TestSilentListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := open(t, 1, quick, func(c *Config) { c.timing.handshake = 100 * time.Millisecond })
	if _, err := a.GetConnection(context.Background(), l.Addr().String()); err == nil {
		t.Fatal("connected")
	}
	// One that is given up, or whose link is closed, ends then.
	slow := open(t, 3, func(c *Config) { c.timing.handshake = time.Hour })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := slow.GetConnection(ctx, l.Addr().String()); err == nil {
		t.Fatal("connected")
	}
	ended := make(chan error, 1)
	go func() {
		_, err := slow.GetConnection(context.Background(), l.Addr().String())
		ended <- err
	}()
	eventually(t, "the dial", func() bool { slow.mu.Lock(); defer slow.mu.Unlock(); return len(slow.mu.open) == 1 })
	if err := slow.transport.Close(); err != nil {
		t.Fatal(err)
	}
	if err := within(t, "the dial's end", ended); err == nil {
		t.Fatal("connected")
	}
}

// TestSilentDialer: before and after the hello.
func TestSilentDialer(t *testing.T) {
	t.Parallel()
	b := open(t, 2, quick, func(c *Config) { c.timing.handshake = 200 * time.Millisecond })
	c, err := net.Dial("tcp", b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var one [1]byte
	if _, err := c.Read(one[:]); err == nil || errors.Is(err, context.DeadlineExceeded) || errTimeout(err) {
		t.Fatalf("was not closed: %v", err)
	}
	d := open(t, 2, quick, silent)
	greeted(t, d, Messages) // and never answers the beat
	d.logged(t, "silent for too long")
	eventually(t, "the guest's end", func() bool { return d.guestConns() == 0 })
}

func errTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestIdle: silence of raft alone is no reason to close: both ends say that they live.
func TestIdle(t *testing.T) {
	t.Parallel()
	a, b := open(t, 1, quick, silent), open(t, 2, quick, silent)
	c := a.to(t, b)
	start := time.Now()
	eventually(t, "more than the silence to pass", func() bool { return time.Since(start) > 4*time.Second })
	if err := c.SendMessageBatch(batch(4, 10)); err != nil {
		t.Fatal(err)
	}
	if number(within(t, "a batch", b.batches)) != 4 {
		t.Fatal("another batch")
	}
}

// TestDeadListener: a listener that hangs after the hello is found out by the dialer,
// who sends nothing.
func TestDeadListener(t *testing.T) {
	t.Parallel()
	b := open(t, 2, quick, func(c *Config) { c.timing.alive, c.timing.silence = time.Hour, time.Hour })
	c := open(t, 1, quick, silent).to(t, b)
	within(t, "the connection's end", c.done)
	if err := c.SendMessageBatch(batch(1, 1)); err == nil {
		t.Fatal("sent on a dead connection")
	}
}

// TestSlowReader: a peer that does not take what is sent costs a stall, not a memory.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	b := open(t, 2, quick)
	gate := make(chan struct{})
	c := open(t, 1, quick, func(c *Config) { c.timing.silence = time.Hour }).to(t, b)
	b.hold(gate)
	defer close(gate)
	big := batch(1, 8<<20)
	var err error
	for i := 0; i < 64 && err == nil; i++ {
		err = c.SendMessageBatch(big)
	}
	if err == nil {
		t.Fatal("512 MiB were sent to a peer that reads nothing")
	}
	eventually(t, "the budget given back", func() bool { return c.t.out.used() == 0 })
}

// TestGivenUp: a sender that hangs in a peer that reads nothing ends with the context
// that the connection was asked for with: dragonboat waits for its senders before it
// closes the transport.
func TestGivenUp(t *testing.T) {
	b := open(t, 2, quick)
	gate := make(chan struct{})
	b.hold(gate)
	defer close(gate)
	a := open(t, 1, quick, func(c *Config) { c.timing.stall = time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := a.GetConnection(ctx, b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		var err error
		for big := batch(1, 8<<20); err == nil; {
			err = c.SendMessageBatch(big)
		}
		over <- err
	}()
	eventually(t, "bytes on their way", func() bool { return a.out.used() > 0 })
	cancel()
	within(t, "the sender's end", over)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.open) != 0 {
		t.Errorf("%d connections are open", len(a.mu.open))
	}
}

// TestGivenUpAtOnce: the context may end while the connection is being handed out.
func TestGivenUpAtOnce(t *testing.T) {
	a, b := open(t, 1, quick), open(t, 2, quick)
	for i := range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		f := time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
		c, err := a.GetConnection(ctx, b.link.Addr())
		if err == nil {
			cancel()
			eventually(t, "the connection's end", func() bool { return c.SendMessageBatch(batch(1, 1)) != nil })
		}
		f.Stop()
		cancel()
	}
	eventually(t, "all closed", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.mu.open) == 0 })
	eventually(t, "no guest", func() bool { return b.guestConns() == 0 })
}

// TestCrowd: connections that never say hello are limited for each address, and go.
func TestCrowd(t *testing.T) {
	t.Parallel()
	b := open(t, 2, quick, func(c *Config) { c.timing.handshake = 2 * time.Second })
	for range maxGreetingHost + 5 {
		c, err := net.Dial("tcp", b.link.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	b.logged(t, "too many that have not said hello")
	eventually(t, "them gone", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.mu.greeters == 0 && len(b.mu.greeting) == 0 })
	open(t, 1, quick).to(t, b)
}
