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
	for _, step := range []struct {
		stamp, want int64
		mono        time.Duration
	}{
		{5, 5, 0},
		{3, 5, time.Second},                // an older stamp
		{1_000_000, 2005, 2 * time.Second}, // a wild one
		{2105, 2105, 3 * time.Second},
	} {
		if got := c.advance(step.stamp, step.mono); got != step.want {
			t.Errorf("stamp %d: now %d, want %d", step.stamp, got, step.want)
		}
	}
	if got := c.stamp(3*time.Second + 250*time.Millisecond); got != 2355 {
		t.Errorf("stamp a quarter of a second later: %d, want 2355", got)
	}
	// Two entries are in flight after a minute of silence: a lease of 1 s that the first
	// gave is not over with the second.
	first, second := c.stamp(time.Minute), c.stamp(time.Minute+time.Millisecond)
	began := c.advance(first, time.Minute+2*time.Millisecond)
	if now := c.advance(second, time.Minute+3*time.Millisecond); now-began > 3 {
		t.Errorf("the clock goes %d ms in 3 ms", now-began)
	}
}
