package gossip

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestNodesFindEachOther starts nodes in a row, the founder with itself as its only
// seed, by two names, and the others with one seed that works among some that do not.
func TestNodesFindEachOther(t *testing.T) {
	t.Parallel()
	first := start(t, 1)
	first.kill()
	addr := first.GossipAddr()
	founder := first.again(func(c *Config) {
		c.Bind = addr
		c.Seeds = []string{addr, fmt.Sprintf("localhost:%d", port(t, addr))}
	})
	second := start(t, 2, seeds(founder))
	third := start(t, 3, func(c *Config) {
		c.Seeds = []string{nobody(t), deaf(t), "no-such-host.invalid:7946", second.GossipAddr()}
	})
	allSee(t, founder, second, third)
	if lines := founder.log.lines("level=WARN", "no node to join"); len(lines) > 0 {
		t.Errorf("the founder warned: %q", lines)
	}
	if lines := founder.log.lines("Initiating push/pull sync with", addr); len(lines) > 0 {
		t.Errorf("the founder joined itself: %q", lines)
	}
	list := third.Members.Members()
	if !slices.IsSortedFunc(list, func(a, b Sighting) int {
		return slices.Compare([]byte(a.NodeID),
			[]byte(b.NodeID))
	}) || len(list) != 3 {
		t.Errorf("members are %v, want three by node id", list)
	}
	if err := founder.Fault(); err != nil {
		t.Error(err)
	}
}

// TestUpdateIsToldAndWatched changes a record while nodes run.
func TestUpdateIsToldAndWatched(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a), self(func(r *Record) { r.State = Joining }))
	allSee(t, a, b)
	var calls atomic.Int32
	cancel, err := a.Watch(func() { calls.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(r *Record) {
		r.State, r.LinkAddr, r.FormatMax = Member, "elsewhere:1", 3
		r.NodeID, r.HostID, r.Incarnation = "other-1", hostID(9), 99 // stay as they are
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a sees what b became", func() bool {
		s, _ := a.view("node-2")
		return s.State == Member && s.LinkAddr == "elsewhere:1" && s.FormatMax == 3
	})
	allSee(t, a, b)
	eventually(t, "the watcher is called", func() bool { return calls.Load() > 0 })
	cancel()
	if err := b.Update(func(r *Record) { r.State = State(77) }); err == nil {
		t.Error("a state that is none was taken")
	}
	for range maxWatchers {
		if _, err := a.Watch(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Watch(func() {}); err == nil {
		t.Errorf("there may be more than %d watchers", maxWatchers)
	}
}

// TestSlowWatcherHoldsNothingUp has a watcher that does not return while members come
// and are seen.
func TestSlowWatcherHoldsNothingUp(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	held, entered := make(chan struct{}), make(chan struct{}, 1)
	if _, err := a.Watch(func() { signal(entered); <-held }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(held) }) // before a's Close, which waits for it
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	<-entered
	c := start(t, 3, seeds(b))
	allSee(t, a, b, c)
}

// TestKilledNodeIsMissedAndReturnsElsewhere kills a node, and starts it again at
// another address and without seeds: the others look for it, or it for them.
func TestKilledNodeIsMissedAndReturnsElsewhere(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	c := start(t, 3, seeds(a))
	allSee(t, a, b, c)
	c.kill()
	for _, n := range []*node{a, b} {
		eventually(t, "node-3 is missed", func() bool { s, ok := n.view("node-3"); return ok && !s.Alive })
	}
	s, _ := a.view("node-3")
	eventually(t, "time passes", func() bool { later, _ := a.view("node-3"); return later.For > s.For })
	c = c.again(seeds(b), self(func(r *Record) { r.RaftAddr = "10.0.9.9:1" }))
	allSee(t, a, b, c)
	if later, _ := a.view("node-3"); later.For >= s.For+patience || later.Incarnation != 2 {
		t.Errorf("node-3 is %+v, want its second start, alive for a short while", later)
	}
	// The same, found by the others alone.
	at := c.GossipAddr()
	c.kill()
	eventually(t, "node-3 is missed again", func() bool { s, _ := a.view("node-3"); return !s.Alive })
	c = c.again(seeds(), func(cf *Config) { cf.Bind = at })
	allSee(t, a, b, c)
}

// TestQuickRestartElsewhere starts a node again at another address before anybody
// misses it: the others follow, and count its time on.
func TestQuickRestartElsewhere(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	c := start(t, 3, seeds(a))
	allSee(t, a, b, c)
	before, _ := a.view("node-3")
	c.kill()
	c = c.again()
	allSee(t, a, b, c)
	after, _ := a.view("node-3")
	if lines := a.log.lines("cluster node gone", "node-3"); len(lines) == 0 && after.For < before.For {
		t.Errorf("alive for %s, before the restart for %s: nobody missed it", after.For, before.For)
	}
	// Its former self ends, which must not be taken for its own end.
	eventually(t, "the former start is found dead", func() bool {
		return len(a.log.lines("Marking "+c.formerName()+" as failed"))+
			len(b.log.lines("Marking "+c.formerName()+" as failed")) > 0
	})
	allSee(t, a, b, c)
	if lines := slices.Concat(a.log.lines("level=WARN", "refused"),
		b.log.lines("level=WARN", "refused")); len(lines) > 0 {
		t.Errorf("a restart was warned about: %q", lines)
	}
}

// formerName is the name of the start before this one.
func (n *node) formerName() string {
	r := n.table.self()
	r.Incarnation--
	return r.name()
}

// TestFiveNodesLoseTwo kills two of five at once.
func TestFiveNodesLoseTwo(t *testing.T) {
	t.Parallel()
	nodes := []*node{start(t, 1)}
	for i := 2; i <= 5; i++ {
		nodes = append(nodes, start(t, i, seeds(nodes[0])))
	}
	allSee(t, nodes...)
	nodes[0].kill()
	nodes[3].kill()
	rest := []*node{nodes[1], nodes[2], nodes[4]}
	allSee(t, rest...)
	// The seed of all is gone. Who comes now, comes through another.
	more := start(t, 6, seeds(nodes[0], nodes[4]))
	allSee(t, append(rest, more)...)
}

// TestLeave tells the others, who see the difference from a death.
func TestLeave(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	c := start(t, 3, seeds(a))
	allSee(t, a, b, c)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		eventually(t, "node-3 left", func() bool { s, _ := n.view("node-3"); return !s.Alive && s.State == Leaving })
	}
	if err := c.Update(func(r *Record) { r.State = Member }); err == nil {
		t.Error("a node that left took a change")
	}
	c.kill()
	if err := a.Forget("node-2"); err == nil {
		t.Error("a living node was forgotten")
	}
	if err := a.Forget("node-3"); err != nil {
		t.Error(err)
	}
	if _, known := a.view("node-3"); known {
		t.Error("node-3 is not forgotten")
	}
	// It comes back in its next start.
	c = c.again(seeds(b), self(func(r *Record) { r.State = Member }))
	allSee(t, a, b, c)
}

// TestSeedThatComesLater starts a node before its seed.
func TestSeedThatComesLater(t *testing.T) {
	t.Parallel()
	probe := start(t, 1)
	probe.kill()
	b := start(t, 2, seeds(probe))
	eventually(t, "b says that it waits", func() bool {
		return len(b.log.lines("level=WARN", "no node to join answers yet", probe.GossipAddr())) == 1
	})
	a := probe.again(func(c *Config) { c.Bind = probe.GossipAddr() })
	allSee(t, a, b)
}

// TestCloseIsQuick closes nodes in the middle of what they do, twice.
func TestCloseIsQuick(t *testing.T) {
	t.Parallel()
	a := start(t, 1, func(c *Config) { c.Seeds = []string{deaf(t), nobody(t)} })
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	idle, err := net.Dial("tcp", a.GossipAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	eventually(t, "the silent connection is taken", func() bool {
		return len(a.log.lines("Stream connection from="+idle.LocalAddr().String())) > 0
	})
	for _, n := range []*node{a, b} {
		done := make(chan struct{})
		go func() {
			n.kill()
			n.kill()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(oneHost.stream - time.Second): // when memberlist would give the connection up
			t.Fatal("Close does not return")
		}
	}
	if err := a.Update(func(*Record) {}); err == nil {
		t.Error("a closed node took a change")
	}
	if err := a.Leave(context.Background()); err == nil {
		t.Error("a closed node left")
	}
}
