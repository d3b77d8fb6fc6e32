package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

func (c *caller) alive(owner string) bool {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpIsOwnerAlive, Owner: owner}).Flag
}

// kick makes every log look at its clock.
func (r *rig) kick() {
	for _, l := range r.node.logs {
		l.kick()
	}
}

// TestPromise5WallClock steps the time of day by hours while leases run: they end
// when the monotonic clock says so, and not before.
func TestPromise5WallClock(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	r.clock.freeze()
	c.must(write("a", "h:/a/1", 10*time.Second))
	for i, step := range []time.Duration{time.Hour, -2 * time.Hour, 100 * 24 * time.Hour, -200 * 24 * time.Hour} {
		r.clock.stepWall(step)
		r.clock.advance(2 * time.Second)
		r.kick()
		c.must(write("other", "h:/a/2", time.Hour)) // an entry with the new stamp
		if !c.alive("a") {
			t.Fatalf("the lease of 10 s ended %d s after it began, when the time of day stepped by %v", 2*(i+1), step)
		}
	}
	r.clock.advance(1900 * time.Millisecond)
	r.kick()
	c.must(write("other", "h:/a/2", time.Hour))
	if !c.alive("a") {
		t.Fatal("the lease of 10 s ended after 9.9 s")
	}
	r.clock.run()
	eventually(t, "the lease ends at its time", func() bool { return !c.alive("a") })
}

// TestPromise5Tick says that a lease does not outlive its time by more than a
// tick though nothing else happens in its log: the deadline itself brings the
// entry that ends it.
func TestPromise5Tick(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	events := make(chan wire.EventKind, 4)
	if _, err := r.node.Subscribe(&wire.Subscription{Owner: "a", Kinds: wire.AllEvents,
		Sink: sinkFunc(func(k wire.EventKind) { events <- k })}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.must(write("a", "h:/a/1", 400*time.Millisecond))
	if k := <-events; k != wire.EventExpired {
		t.Fatalf("event %v", k)
	}
	if lived := time.Since(began); lived < 400*time.Millisecond {
		t.Fatalf("the lease of 400 ms lived %v", lived)
	}
}

// sinkFunc is a sink that wants only to know the kinds.
type sinkFunc func(wire.EventKind)

func (f sinkFunc) Deliver(_ *wire.Subscription, k wire.EventKind, _, _ string, _ int64, _ wire.Position) {
	f(k)
}
func (f sinkFunc) Progress(*wire.Subscription, []wire.Position) {}
func (f sinkFunc) Gap(*wire.Subscription, []wire.Position)      {}

// TestPromise5Fractions takes leases at any fraction of a millisecond: that takes nothing
// off them, and adds less than two.
func TestPromise5Fractions(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	r.clock.freeze()
	defer r.clock.run()
	const lasts, part = 50 * time.Millisecond, time.Microsecond
	for range 20 {
		r.clock.advance(130 * time.Microsecond)
		c.must(write("a", "h:/a", lasts))
		r.clock.advance(lasts - part)
		c.must(write("b", "h:/b", time.Hour))
		if !c.alive("a") {
			t.Fatalf("a lease of %v is over %v early", lasts, part)
		}
		r.clock.advance(2 * time.Millisecond)
		c.must(write("b", "h:/b", time.Hour))
		if c.alive("a") {
			t.Fatalf("a lease of %v goes on for 2 ms more", lasts)
		}
	}
}

// TestTimeLeft shows what is left of a lease and of a place in the queue in a group that
// nothing is done to, while the log goes on.
func TestTimeLeft(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	r.clock.freeze()
	defer r.clock.run()
	c.must(write("a", "h:/a", 10*time.Second))
	queued := write("b", "h:/a", time.Second)
	queued.QueueTTLMillis = 8_000
	c.ask(queued)
	for passed := uint64(0); passed <= 7_000; passed += 1_000 {
		for what, req := range map[string]*wire.Request{
			"dump":     {Op: wire.OpDumpLocks, Owner: "a"},
			"describe": {Op: wire.OpDescribe, Path: "h:/a", Page: 10},
		} {
			list := c.must(req).List
			i := slices.IndexFunc(list.Infos, func(i wire.LockInfo) bool { return i.Owner == "a" })
			if left := list.Infos[i].ExpiresInMillis; left != 10_000-passed {
				t.Errorf("%s: %d ms left of a lease of 10 s after %d ms", what, left, passed)
			}
			for _, w := range list.Waiters {
				if w.ExpiresInMillis != 8_000-passed {
					t.Errorf("%s: %d ms left of a place of 8 s after %d ms", what, w.ExpiresInMillis, passed)
				}
			}
			if what == "describe" && len(list.Waiters) != 1 {
				t.Fatalf("%d wait", len(list.Waiters))
			}
		}
		r.clock.advance(time.Second)
		c.must(write("other", "k:/elsewhere", time.Hour))
	}
}

// TestOneTick counts the entries that bring a deadline to a log where nothing else
// happens: one.
func TestOneTick(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	l := r.node.logs[rows.FirstLog]
	proposed := func() uint64 {
		l.drive.Lock()
		defer l.drive.Unlock()
		return l.drive.number
	}
	const leases = 10
	c.must(write("a", "h:/a", 50*time.Millisecond))
	eventually(t, "the lease ends", func() bool { return !c.alive("a") })
	before, late := proposed(), uint64(0)
	for range leases {
		began := time.Now()
		c.must(write("a", "h:/a", 50*time.Millisecond))
		eventually(t, "the lease ends", func() bool { return !c.alive("a") })
		late += uint64(time.Since(began) / tickEvery) // ticks of a second, where the machine stood still
	}
	if n := proposed() - before; n > 2*leases+late {
		t.Errorf("%d entries for %d leases that were taken and ended", n, leases)
	}
}

// TestPromise5Outage stops the node for a year, by its clock: what was left of a
// lease is left when it is back.
func TestPromise5Outage(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	r.clock.freeze()
	c.must(write("a", "h:/a/1", 10*time.Second))
	r.clock.advance(4 * time.Second)
	r.kick()
	c.must(write("b", "h:/a/2", time.Hour)) // so that the log knows of the 4 s
	for range 2 {
		r.close()
		r.clock.advance(365 * 24 * time.Hour)
		r.open()
	}
	c = r.session()
	if !c.alive("a") {
		t.Fatal("the lease ran out while nobody could renew it")
	}
	r.clock.advance(5900 * time.Millisecond)
	r.kick()
	c.must(write("b", "h:/a/2", time.Hour))
	if !c.alive("a") {
		t.Fatal("the lease of 10 s ended after 9.9 s of service")
	}
	r.clock.run()
	eventually(t, "the lease ends", func() bool { return !c.alive("a") })
}

// TestPromise5Busy asks one thing after the other, each 0.4 ms, and again with entries
// that take 10 ms each to come through raft: a lease ends at its time, as on an idle log.
func TestPromise5Busy(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	l := r.node.logs[rows.FirstLog]
	m := l.local.Load()
	underWay := func() int {
		l.drive.Lock()
		defer l.drive.Unlock()
		return len(l.drive.under)
	}
	for _, way := range []struct {
		name  string
		every time.Duration
		ask   func(req *wire.Request, every time.Duration)
	}{
		{"one at a time", 400 * time.Microsecond, func(req *wire.Request, every time.Duration) {
			r.clock.advance(every)
			c.must(req)
		}},
		{"slow entries", 10 * time.Millisecond, func(req *wire.Request, every time.Duration) {
			m.Lock() // nothing is applied
			o := c.start(r.next.Add(1), req)
			eventually(t, "it is proposed", func() bool { return underWay() > 0 })
			r.clock.advance(every)
			m.Unlock()
			<-o.done
			eventually(t, "nothing is under way", func() bool { return underWay() == 0 })
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			r.clock.freeze()
			defer r.clock.run()
			c.must(write("b", "h:/b", time.Hour))
			eventually(t, "nothing is under way", func() bool { return underWay() == 0 })
			c.must(write("a", "h:/a", time.Second))
			left := time.Second
			for ; left > 2*way.every+2*time.Millisecond; left -= way.every {
				way.ask(write("b", "h:/b", time.Hour), way.every)
			}
			if !c.alive("a") {
				t.Fatalf("a lease of 1 s is over %v early", left)
			}
			for ; left > -2*way.every-2*time.Millisecond; left -= way.every {
				way.ask(write("b", "h:/b", time.Hour), way.every)
			}
			if c.alive("a") {
				t.Fatalf("a lease of 1 s goes on after %v", time.Second-left)
			}
		})
	}
}
