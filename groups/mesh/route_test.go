package mesh

import (
	"errors"
	"fmt"
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
	t.Logf("it took %s", time.Since(start)) // dials are maxWait apart at most, and what a busy machine adds
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
	eventually(t, "six dials", func() bool { a.Conn("host-2", addr); return count.Load() >= 6 })
	// After 20, 40, 80, 160 and 320 ms more, and what dialing took.
	if took := time.Since(start); took < 620*time.Millisecond {
		t.Errorf("six dials in %s", took)
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
	if got, most := n.Load()+m.Load(), int32(time.Since(start)/minWait)+1; got > most {
		t.Errorf("%d dials, at most %d should be", got, most)
	}
	eventually(t, "some dials", func() bool {
		a.Conn("host-9", first)
		a.Conn("host-9", second)
		return n.Load()+m.Load() >= 3
	})
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
	if took := time.Since(start); took > 5*time.Second { // it would be given up by itself then
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
}

// TestMoveLeavesADialItsTime: another address does not end a dial that has just begun, so
// that two who know two addresses do not keep each other from both.
func TestMoveLeavesADialItsTime(t *testing.T) {
	ended := make(chan time.Time, 9)
	r := &route{began: time.Now(), abandon: func() { ended <- time.Now() }, moved: make(chan struct{}, 1)}
	for range 3 {
		r.move()
	}
	if at := within(t, "its end", ended); at.Sub(r.began) < maxWait {
		t.Errorf("it was given up after %s, and has %s", at.Sub(r.began), maxWait)
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
	if got := within(t, "the end", b.closed); !errors.Is(got.err, errByPeer) ||
		!strings.Contains(got.err.Error(), words) {
		t.Error(got.err)
	}
	if len(a.opened) != 0 || a.live() != 0 {
		t.Error("it was opened")
	}
}

// TestTooManyPeers: one more than may be dialed has no connection until another is
// forgotten.
func TestTooManyPeers(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	a.mu.Lock()
	for i := range maxPeers {
		a.mu.routes[fmt.Sprint("peer ", i)] = &route{}
	}
	a.mu.Unlock()
	for range 2 {
		if a.Conn(b.host, b.Addr()) != nil {
			t.Fatal("connected")
		}
	}
	a.mu.Lock()
	if n := len(a.mu.routes); n != maxPeers {
		t.Errorf("%d peers are dialed, the limit is %d", n, maxPeers)
	}
	delete(a.mu.routes, "peer 7")
	a.mu.Unlock()
	a.to(t, b)
}
