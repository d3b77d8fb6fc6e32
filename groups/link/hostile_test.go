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
		"wrong kind":   {[]byte{frameBatch, 0, 0, 0, 0}, Snapshots, "a frame of type 1 on a connection for snapshots"},
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

// TestHalfFrame: who begins a frame and does not go on is closed, though it would be
// waited for if it said nothing.
func TestHalfFrame(t *testing.T) {
	b := open(t, 2, quick)
	c := greeted(t, b, Messages)
	if _, err := c.Write([]byte{frameBatch, 0, 0, 4, 0, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return b.guestConns() == 0 })
	b.logged(t, "silent for too long")
}

// panics is a message whose decoder does not expect what it is given.
type panics struct{}

func (panics) Unmarshal(b []byte) error { return errors.New(string(b[:1+len(b)])) }

// TestDecoderPanics: it is an error of the peer's, and not this node's end.
func TestDecoderPanics(t *testing.T) {
	if err := unmarshal(panics{}, []byte("x")[:1:1]); err == nil || !strings.Contains(err.Error(), "decode: ") {
		t.Error(err)
	}
}
