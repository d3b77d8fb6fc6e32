package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseThatWaitsForTheWindow: a read of an owner that the program names is unlocked while the window is full,
// until its lease has ended and another client of the owner has the path: that lock stays.
func TestAReleaseThatWaitsForTheWindow(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	slow := make(chan *wire.Call, 1)
	addr := stage(t, func(c *wire.Call) bool {
		if c.Req.Owner == "slow" {
			slow <- c
			return true
		}
		return false
	})
	c := dial(t, addr, WithGrace(time.Hour), WithOneConnection(), WithWindow(2))
	mate, other := dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
	p, me := path(t, "/a/p"), t.Name()
	mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Second))
	mustLock(t, mine, err)
	c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow", Releases: []wire.ReleaseRequest{{Path: path(t, "/b/p")}}},
		func(*wire.Result, error) {})
	open := <-slow
	must(t, mine.Err())
	gaveUp(t, mine)
	eventually(t, "the end of the lease", func() bool { return holders(t, other, p) == 0 })
	later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	answers(open, wire.OK)
	eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
	if holders(t, other, p) != 1 {
		t.Errorf("%s was given back, and the later lock is sure for %v more", p,
			time.Until(later.Deadline()).Round(time.Second))
	}
	must(t, later.Err())
}
