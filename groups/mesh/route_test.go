package mesh

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRestart: a peer that comes back on another port is reached soon, and one connection
// is made to it.
func TestRestart(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	a.to(t, b)
	if err := b.Mesh.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, "the end", a.closed)
	during(300*time.Millisecond, func() {
		if a.Conn(b.host, b.Addr()) != nil {
			t.Fatal("connected to nobody")
		}
	})
	a.logged(t, "connection refused")
	start := time.Now()
	again := open(t, 2)
	a.to(t, again).Send([]byte("again"))
	within(t, "a frame", again.frames)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
}

// deaf listens, counts who comes, and answers nothing; it closes at once if told so.
func deaf(t *testing.T, closes bool) (addr string, count *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	count = new(atomic.Int32)
	var came []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if count.Add(1); closes {
				_ = c.Close()
				continue
			}
			came = append(came, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range came {
			_ = c.Close()
		}
	})
	return l.Addr().String(), count
}

// during does something every millisecond for a time.
func during(d time.Duration, do func()) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < d; <-tick.C {
		do()
	}
}

// TestBackOff: failing dials come less and less often, and not at all when nobody asks.
func TestBackOff(t *testing.T) {
	a := open(t, 1, func(c *Config) { c.timing.forget = 50 * time.Millisecond })
	addr, count := deaf(t, true)
	start := time.Now()
	during(1500*time.Millisecond, func() { a.Conn("host-2", addr) })
	// After 0, 20, 60, 140, 300, 620, 1260 ms, and what dialing took.
	if n := count.Load(); n < 3 || n > 7 {
		t.Errorf("%d dials in %s", n, time.Since(start))
	}
	eventually(t, "it forgotten", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.mu.routes) == 0 })
	n := count.Load()
	during(100*time.Millisecond, func() {
		if count.Load() != n {
			t.Fatal("dialed for nobody")
		}
	})
}

// TestFlapping: two who disagree about the address do not make dials frequent, and the
// one who is right gets a connection.
func TestFlapping(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	if a.Conn(b.host, "") != nil || len(a.mu.routes) != 0 {
		t.Error("dials nowhere")
	}
	first, n := deaf(t, true)
	second, m := deaf(t, true)
	start := time.Now()
	during(500*time.Millisecond, func() {
		a.Conn("host-9", first)
		a.Conn("host-9", second)
	})
	if got, most := n.Load()+m.Load(), int32(time.Since(start)/minWait)+1; got > most || got < 3 {
		t.Errorf("%d dials, at most %d should be", got, most)
	}
	eventually(t, "a connection", func() bool { a.Conn(b.host, first); return a.Conn(b.host, b.Addr()) != nil })
	if a.Conn(b.host, "") == nil {
		t.Error("what is there was not answered")
	}
}

// TestStuckDial: an address that does not answer is given up soon when another is told.
func TestStuckDial(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	addr, count := deaf(t, false)
	a.Conn(b.host, addr)
	eventually(t, "the dial", func() bool { return count.Load() == 1 })
	start := time.Now()
	a.to(t, b)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
	// One that is dropped while it is dialed comes to nothing.
	a.Conn("host-3", addr)
	eventually(t, "the dial", func() bool { return count.Load() == 2 })
	a.Drop("host-3")
	start = time.Now()
	eventually(t, "its end", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.mu.routes["host-3"].abandon == nil
	})
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it was given up after %s", took)
	}
}

// TestOtherHost: whoever else answers at the address is refused, and both hear of it.
func TestOtherHost(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	const words = "looks for the node with raft host id host-3 at"
	eventually(t, "a refusal", func() bool {
		if a.Conn("host-3", b.Addr()) != nil {
			t.Fatal("connected to another node")
		}
		return strings.Contains(a.log.String(), words)
	})
	b.logged(t, words)
	if got := within(t, "the end", b.closed); !errors.Is(got.err, ErrByPeer) || !strings.Contains(got.err.Error(), words) {
		t.Error(got.err)
	}
	if len(a.opened) != 0 || a.live() != 0 {
		t.Error("it was opened")
	}
}
