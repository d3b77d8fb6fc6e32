package groups

import (
	"testing"
	"time"

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
	if _, err := r.node.Subscribe(&wire.Subscription{Owner: "a", Kinds: wire.AllEvents, Sink: sinkFunc(func(k wire.EventKind) { events <- k })}); err != nil {
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

// TestPromise5Fractions takes leases at any fraction of a millisecond: none ends before
// its time by any of it.
func TestPromise5Fractions(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	r.clock.freeze()
	defer r.clock.run()
	for range 20 {
		r.clock.advance(130 * time.Microsecond)
		c.must(write("a", "h:/a", 50*time.Millisecond))
		r.clock.advance(50*time.Millisecond - time.Microsecond)
		c.must(write("b", "h:/b", time.Hour))
		if !c.alive("a") {
			t.Fatal("a lease of 50 ms is over after 49.999 ms")
		}
		if left := c.must(&wire.Request{Op: wire.OpDumpLocks, Owner: "a"}).List.Infos[0].ExpiresInMillis; left > 50 {
			t.Fatalf("a lease of 50 ms has %d ms left", left)
		}
		r.clock.advance(2 * time.Millisecond)
		c.must(write("b", "h:/b", time.Hour))
		if c.alive("a") {
			t.Fatal("a lease of 50 ms goes on after 52 ms")
		}
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

// TestLeaseClock is the arithmetic: no stamp moves the clock back, or forward by
// more than 2 s.
func TestLeaseClock(t *testing.T) {
	var c leaseClock
	own, other := office{term: 2, node: 1}, office{term: 1, node: 2}
	for _, step := range []struct {
		stamp, want int64
		mono        time.Duration
	}{
		{5, 5, 0},
		{3, 5, time.Second},                // an older stamp
		{1_000_000, 2005, 2 * time.Second}, // a wild one
		{2105, 2105, 3 * time.Second},
	} {
		if got := c.advance(other, step.stamp, step.mono); got != step.want {
			t.Errorf("stamp %d: now %d, want %d", step.stamp, got, step.want)
		}
	}
	if got := c.stamp(own, 3*time.Second+250*time.Millisecond); got != 2355 {
		t.Errorf("stamp a quarter of a second later: %d, want 2355", got)
	}
	// Two entries are in flight after a minute of silence: a lease of 1 s that the first
	// gave is not over with the second.
	first, second := c.stamp(own, time.Minute), c.stamp(own, time.Minute+time.Millisecond)
	if first != 4105 {
		t.Errorf("stamp after a minute: %d, want 4105", first)
	}
	began := c.advance(own, first, time.Minute+2*time.Millisecond)
	if now := c.advance(own, second, time.Minute+3*time.Millisecond); now-began > 3 {
		t.Errorf("the clock goes %d ms in 3 ms", now-began)
	}
	// What silence lost is not made up for later.
	if got := c.stamp(own, time.Minute+100*time.Millisecond); got < began+97 || got > began+100 {
		t.Errorf("stamp 0.1 s later: %d, want about %d", got, began+100)
	}
	// An outage: entries are stamped and none is applied for 10 s.
	for at := time.Minute + 200*time.Millisecond; at < time.Minute+10*time.Second; at += 100 * time.Millisecond {
		if got := c.stamp(own, at); got > began+2000 {
			t.Fatalf("stamp %v after an entry: %d ms more", at-time.Minute, got-began)
		}
	}
	c.advance(own, began+200, time.Minute+10*time.Second)
	if got := c.stamp(own, time.Minute+10*time.Second); got > began+2100 {
		t.Errorf("an outage of 10 s took %d ms of the leases", got-began)
	}
	// A clock that was read back goes on from where its office stamped with another one.
	c = leaseClock{now: 100, at: time.Hour, office: own}
	c.advance(own, 1_100, time.Hour+time.Millisecond)
	if got := c.stamp(own, time.Hour+11*time.Millisecond); got != 1_110 {
		t.Errorf("stamp 10 ms after an entry of 1100: %d", got)
	}
}

// TestLeaseClockGoesOn has entries come one after the other, each as long under way as
// there is until the next: the clock counts all of that time at who stamps them, and what
// is less than a millisecond too. At a follower it never goes ahead, though the follower's
// monotonic clock be fast.
func TestLeaseClockGoesOn(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Microsecond, 3*time.Millisecond + 700*time.Microsecond, time.Second, 1900 * time.Millisecond} {
		for _, way := range []time.Duration{0, every / 2, every - time.Microsecond} {
			var c, follower leaseClock
			own := office{term: 1, node: 1}
			for mono := time.Duration(0); mono < 30*time.Second; mono += every {
				s := c.stamp(own, mono)
				if lost := mono.Milliseconds() - s; lost < 0 || lost > 1 {
					t.Fatalf("an entry each %v, %v under way: stamp %d after %v", every, way, s, mono)
				}
				c.advance(own, s, mono+way)
				heard := mono + way
				heard += heard / 100
				follower.advance(own, s, heard)
				if took := follower; took.stamp(office{term: 2, node: 2}, heard) > (mono+way+every/50).Milliseconds()+1 {
					t.Fatalf("an entry each %v, %v under way: %v after the first one a follower is ahead", every, way, mono)
				}
			}
		}
	}
}

// TestPromise5Busy asks one thing after the other, each 0.4 ms, and again with entries
// that take 10 ms each to come through raft: a lease ends at its time, as on an idle log.
func TestPromise5Busy(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	l := r.node.logs[firstLogShard]
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
			m.mu.Lock() // nothing is applied
			o := c.start(r.next.Add(1), req)
			eventually(t, "it is proposed", func() bool { return underWay() > 0 })
			r.clock.advance(every)
			m.mu.Unlock()
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
