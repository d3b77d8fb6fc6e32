package link

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

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
	eventually(t, "them gone", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mu.greeters == 0 &&
			len(b.mu.greeting) == 0
	})
	open(t, 1, quick).to(t, b)
}

// TestGateLimits fills what a gate has for strangers and for guests, each limit for one and
// for all, and makes room again.
func TestGateLimits(t *testing.T) {
	g := open(t, 2, quick).transport.gate
	host := func(i int) string { return fmt.Sprintf("10.0.0.%d", i) }
	for i := range maxGreeting / maxGreetingHost {
		for range maxGreetingHost {
			if !g.enter(host(i)) {
				t.Fatalf("address %d is not let in", i)
			}
		}
		if i == 0 && g.enter(host(i)) {
			t.Error("one address has more than its limit")
		}
	}
	if g.enter("10.1.1.1") {
		t.Error("all addresses together have more than their limit")
	}
	if g.leave(host(0)); !g.enter("10.1.1.1") {
		t.Error("there is room, and one more is not let in")
	}
	g.leave("10.1.1.1")

	guest := func(i int) *hello { return &hello{node: fmt.Sprintf("guest-%d", i), host: fmt.Sprintf("host-%d", i)} }
	for i := range maxGuests / maxGuestConns {
		for range maxGuestConns {
			if v, text := g.arrive(guest(i)); v != accepted {
				t.Fatal(i, text)
			}
		}
		if i > 0 {
			continue
		}
		if v, text := g.arrive(guest(i)); v != tooMany ||
			!strings.Contains(text, "node guest-0 has 128 connections at the raft_addr of node node-2") {
			t.Error("one peer has more than its limit:", v, text)
		}
	}
	if v, text := g.arrive(guest(99)); v != tooMany ||
		!strings.Contains(text, "node node-2 has 4096 connections at its raft_addr") {
		t.Error("all peers together have more than their limit:", v, text)
	}
	g.depart(guest(1).peer())
	if v, text := g.arrive(guest(99)); v != accepted {
		t.Error("there is room, and one more is refused:", text)
	}
	// A node id is one data directory's until the last of its connections is gone.
	moved := &hello{node: "guest-99", host: "another"}
	if v, text := g.arrive(moved); v != clash {
		t.Error("two data directories have one node id:", v, text)
	}
	g.depart(guest(99).peer())
	if v, text := g.arrive(moved); v != accepted {
		t.Error("its former data directory is gone:", text)
	}
}

// TestBudget: who waits first has its bytes first, so that small ones do not keep a large
// one waiting; who gives up is out of the way.
func TestBudget(t *testing.T) {
	b := newBudget(10)
	if b.take(t.Context(), 11) == nil {
		t.Error("more than there is was taken")
	}
	if err := b.take(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	wait := func(ctx context.Context) chan error {
		taken := make(chan error, 1)
		go func() { taken <- b.take(ctx, 5) }()
		eventually(t, "one that waits", func() bool { return len(b.turn) == 1 })
		return taken
	}
	ctx, cancel := context.WithCancel(t.Context())
	taken := wait(ctx)
	cancel()
	if err := within(t, "the end of one that gives up", taken); err == nil || b.used() != 8 {
		t.Errorf("one that gave up has %d bytes: %v", b.used()-8, err)
	}
	taken = wait(t.Context())
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if b.take(short, 1) == nil {
		t.Error("a small one has overtaken the large one")
	}
	b.give(8)
	if err := within(t, "the large one", taken); err != nil || b.used() != 5 {
		t.Errorf("%d bytes are taken, %v", b.used(), err)
	}
}
