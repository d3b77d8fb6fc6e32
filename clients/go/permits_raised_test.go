package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestPermitsWhereThereAreNoneRaised: Semaphore in a namespace whose algorithm is another one takes a write, and
// another client of its owner raises its token. Unlock gives it back all the same.
func TestPermitsWhereThereAreNoneRaised(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, mate, other := dial(t, server(t)), dial(t, server(t), WithDialer(line.dial), WithGrace(patience)),
		dial(t, server(t))
	p, q, me := path(t, "/a/p"), path(t, "/a/q"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	mine, err := c.TrySemaphore(ctx, p, 1, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)
	isWatched(t, c, mine)
	giveUp(t, mate, line, me, p, q)
	must(t, mine.Err())
	must(t, mine.Unlock())
	if owner := ownerOf(t, other, p); owner != "" {
		t.Errorf("Unlock answered nil, and %s is held by %q still", p, owner)
	}
}
