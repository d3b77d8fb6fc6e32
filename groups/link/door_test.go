package link

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo answers what it is told.
func echo(c *Conn) error {
	_, err := io.Copy(c, c)
	return err
}

// door opens the door of node n.
func door(t *testing.T, n int, serve func(*Conn) error, options ...func(*Config)) (*Door, *journal) {
	t.Helper()
	c, log := configOf(n, options...)
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.OpenDoor("127.0.0.1:0", serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, log
}

func say(t *testing.T, c net.Conn, words string) {
	t.Helper()
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	hear(t, c, words)
}

func hear(t *testing.T, c net.Conn, words string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, len(words))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != words {
		t.Fatalf("heard %q, %v; want %q", b, err, words)
	}
}

// TestDoor: requests go there and answers come back, each end knows the other, and
// closing either door ends the connection at both.
func TestDoor(t *testing.T) {
	for name, closer := range map[string]int{"the listener": 2, "the dialer": 1} {
		t.Run(name+" closes", func(t *testing.T) {
			came := make(chan Peer, 1)
			ended := make(chan error, 1)
			b, _ := door(t, 2, func(c *Conn) error { came <- c.Peer(); err := echo(c); ended <- err; return err },
				formats(3, 7))
			a, _ := door(t, 1, echo, formats(5, 9))
			c, err := a.Dial(context.Background(), "node-2", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if p := c.Peer(); p != (Peer{Node: "node-2", Host: "host-2"}) {
				t.Errorf("the dialer sees %+v", p)
			}
			if p := within(t, "a guest", came); p != (Peer{Node: "node-1", Host: "host-1"}) {
				t.Errorf("the listener sees %+v", p)
			}
			say(t, c, "hello")
			say(t, c, strings.Repeat("x", 100_000))
			if err := map[int]*Door{1: a, 2: b}[closer].Close(); err != nil {
				t.Fatal(err)
			}
			within(t, "the server's end", ended)
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("read on after the end")
			}
			if _, err := a.Dial(context.Background(), "node-2", b.Addr()); err == nil {
				t.Error("connected after the end")
			}
		})
	}
}

func formats(low, high uint32) func(*Config) {
	return func(c *Config) { c.FormatMin, c.FormatMax = low, high }
}

// TestDoorRefusals: the rules are raft's, and some more.
func TestDoorRefusals(t *testing.T) {
	b, log := door(t, 2, echo, quick, formats(3, 4))
	for name, c := range map[string]struct {
		node   string
		change func(*Config)
		byPeer bool
		words  string
	}{
		"another cluster": {"node-2", func(c *Config) { c.Cluster = clusterB }, true,
			"wrong seed_nodes, address or data_dir"},
		"newer formats": {"node-2", formats(5, 9), true,
			"formats 5 to 9 of shared data, node node-2 with 3 to 4: upgrade one step at a time"},
		"older formats": {"node-2", formats(1, 2), true,
			"formats 1 to 2 of shared data, node node-2 with 3 to 4: upgrade one step at a time"},
		"another node": {"node-3", formats(3, 4), false, "looks for node node-3 at"},
	} {
		t.Run(name, func(t *testing.T) {
			a, own := door(t, 1, echo, quick, c.change)
			_, err := a.Dial(context.Background(), c.node, b.Addr())
			var r *Refusal
			if !errors.As(err, &r) || r.byPeer != c.byPeer || !strings.Contains(r.text, c.words) {
				t.Fatal(err)
			}
			for _, j := range []*journal{own, log} {
				eventually(t, "it in both logs", func() bool { return strings.Contains(j.String(), c.words) })
			}
		})
	}
	a, _ := door(t, 1, echo, quick, func(c *Config) { c.Token = "another token, just as long as it." })
	if _, err := a.Dial(context.Background(), "", b.Addr()); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
	alone, _ := door(t, 1, echo, func(c *Config) { c.Token = "" })
	if _, err := alone.Dial(context.Background(), "", b.Addr()); !errors.Is(err, errAlone) || alone.Addr() != "" {
		t.Error(err, alone.Addr())
	}
	c, _ := configOf(5, formats(3, 4))
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	outward, err := l.OpenDoor("", echo)
	if err != nil || outward.Addr() != "" {
		t.Fatal(err, outward.Addr())
	}
	defer outward.Close()
	conn, err := outward.Dial(context.Background(), "node-2", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	say(t, conn, "a door that only leads out")
	if _, err := l.OpenDoor(b.Addr(), echo); err == nil || !strings.Contains(err.Error(), "link_addr") {
		t.Errorf("two doors at one address: %v", err)
	}
}

// TestWrongPort: raft's connections and requests are not mistaken for each other, and
// what is wrong is said.
func TestWrongPort(t *testing.T) {
	raft := open(t, 2, quick, formats(1, 1))
	requests, _ := door(t, 3, echo, quick, formats(1, 1))
	a := open(t, 1, quick, formats(1, 1))
	d, _ := door(t, 1, echo, quick, formats(1, 1))
	_, err := a.GetConnection(context.Background(), requests.Addr())
	if err == nil || !strings.Contains(err.Error(), "wants a connection for messages at the link_addr of node node-3") {
		t.Error(err)
	}
	_, err = d.Dial(context.Background(), "", raft.link.Addr())
	if err == nil || !strings.Contains(err.Error(), "wants a connection for requests at the raft_addr of node node-2") {
		t.Error(err)
	}
}

// TestDoorWeather: a delay holds up, what is dropped takes the rest with it until the
// connection is cut once the fault is over, and each way is its own.
func TestDoorWeather(t *testing.T) {
	w := NewNetworkFaults(1)
	faults := func(c *Config) { c.Faults = w }
	came := make(chan *Conn, 1)
	b, _ := door(t, 2, func(c *Conn) error { came <- c; return echo(c) }, faults)
	a, _ := door(t, 1, echo, faults)
	dial := func() *Conn {
		c, err := a.Dial(context.Background(), "node-2", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := dial()
	within(t, "a guest", came)
	w.Set("node-1", "node-2", Rule{Delay: 1, DelayMin: 50 * time.Millisecond, DelayMax: 50 * time.Millisecond})
	sent := time.Now()
	say(t, c, "late")
	if took := time.Since(sent); took < 50*time.Millisecond {
		t.Errorf("came after %s", took)
	}

	w.Set("node-1", "node-2", Rule{Block: true})
	if _, err := c.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Dial(context.Background(), "node-2", b.Addr()); !errors.Is(err, errCut) {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errTimeout(err) {
		t.Errorf("not silence: %v", err)
	}
	w.Clear()
	if _, err := c.Write([]byte("too late")); !errors.Is(err, errCut) {
		t.Error(err)
	}

	// The way back alone: the request arrives, the answer does not.
	c = dial()
	within(t, "a guest", came)
	say(t, c, "fair")
	w.Set("node-2", "node-1", Rule{Cut: 1})
	if _, err := c.Write([]byte("cut")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || errTimeout(err) {
		t.Errorf("the answer was not cut: %v", err)
	}
	if n := w.Sent(Requests); n < 6 {
		t.Errorf("%d passages of requests", n)
	}
}

// TestDoorDelayedAtClose: closing a connection, or the door, ends a wait in a network fault.
func TestDoorDelayedAtClose(t *testing.T) {
	w := NewNetworkFaults(1)
	b, _ := door(t, 2, echo)
	a, _ := door(t, 1, echo, func(c *Config) { c.Faults = w })
	late(t, a, b, w, func(c *Conn) { _ = c.Close() })
	late(t, a, b, w, func(*Conn) { _ = a.Close() })
}

func late(t *testing.T, a, b *Door, w *NetworkFaults, end func(*Conn)) {
	t.Helper()
	w.Clear()
	c, err := a.Dial(context.Background(), "", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := w.Sent(Requests)
	w.Set(Any, Any, Rule{Delay: 1, DelayMin: time.Hour})
	over := make(chan error, 1)
	go func() { _, err := c.Write([]byte("x")); over <- err }()
	eventually(t, "the write", func() bool { return w.Sent(Requests) > before })
	end(c)
	if err := within(t, "the write's end", over); err == nil {
		t.Error("written after the end")
	}
}
