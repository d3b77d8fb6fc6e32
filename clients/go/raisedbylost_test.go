package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestRaisedByALockThatIsLost: a lock on p, then one on p and q of the same owner and client, which raises p's token, then one
// on q and r, whose Unlock takes q along, so that the second is lost. When all three are unlocked nothing is held.
func TestRaisedByALockThatIsLost(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	owns := func(path string) string {
		i, err := other.InspectPath(ctx, path)
		must(t, err)
		return i.WriteOwner
	}
	first, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, first, err)
	eventually(t, "that the client watches its owner", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		le := first.lease
		return le != nil && le.watched && first.since != nil && !le.looking && !le.doubt
	})
	second, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(time.Hour))
	mustLock(t, second, err)
	third, err := c.TryLockAll(ctx, []Path{{Path: q}, {Path: r}}, Owner(me), TTL(time.Hour))
	mustLock(t, third, err)
	must(t, third.Unlock())
	must(t, first.Err())
	if owns(p) != me {
		t.Fatalf("%s is held by %q", p, owns(p))
	}
	must(t, first.Unlock())
	if err := second.Unlock(); !errors.Is(err, ErrLost) {
		t.Fatalf("the second lock, which the third took along: %v", err)
	}
	for began := time.Now(); owns(p) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatalf("3 s after all three were unlocked %s is locked by %q still, for the rest of an hour", p, owns(p))
		}
	}
}
