package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfForLong: a release of paths in two namespaces is answered when both are done. What is about a lock
// of the client is done at once, and the other takes half a minute: the lock is lost long before the answer. The lease
// of its owner stays, for another lock.
func TestReleasesItselfForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l, other := hours(t, c, "a:/b/c"), hours(t, c, "a:/b/d")
		pass(time.Minute)
		s.isHeld(l)
		s.takes(always(0, map[wire.Op]time.Duration{wire.OpRelease: 28 * time.Second}))
		done := make(chan error, 1)
		both := []wire.ReleaseRequest{{Path: "a:/b/c"}, {Path: "z:/y/x"}}
		go func() { done <- c.Release(context.Background(), "me", both, false, "") }()
		pass(3 * time.Second)
		s.takes(nil)
		s.other(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: both[:1]})
		s.isNobodys(l)
		must(t, <-done)
		s.isHeld(other)
	})
}
