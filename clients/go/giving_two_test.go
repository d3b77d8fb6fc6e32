package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALateReleaseOfOneOfTwo: two locks of one owner on one path are one lock, which either of them gives back (Owner).
// The release of the first is answered UNAVAILABLE once. Its Unlock answers nil, the other one is lost: so nobody has
// the path.
func TestALateReleaseOfOneOfTwo(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	var n atomic.Int32
	addr := stage(t, func(c *wire.Call) bool {
		if n.Add(1) == 1 {
			answers(c, wire.Unavailable)
			return true
		}
		return false
	})
	c, other := dial(t, addr, WithGrace(time.Hour), WithOneConnection()), dial(t, server(t))
	p, me := path(t, "/a/p"), t.Name()
	one, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, one, err)
	two, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, two, err)
	must(t, one.Unlock())
	if !IsLost(two.Err()) {
		t.Fatalf("the other lock: %v", two.Err())
	}
	if n := holders(t, other, p); n != 0 {
		t.Errorf("Unlock answered nil, the other lock is lost (%v), and %d hold %s", two.Err(), n, p)
	}
}
