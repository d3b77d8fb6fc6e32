package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnlockOfALostLockLeavesAnEarlierOne: a lock on p, then one on p and q of the same owner; q is given back by
// another client, so that the second lock is lost, and the first is not. Unlock of the lost one takes back its own
// request alone: the server keeps p for the first, and so does the client.
func TestUnlockOfALostLockLeavesAnEarlierOne(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	p, q, me := path(t, "/a/p"), path(t, "/a/q"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	const ttl = 4 * time.Second
	first, err := c.TryLock(ctx, p, Owner(me), TTL(ttl))
	mustLock(t, first, err)
	second, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(ttl))
	mustLock(t, second, err)
	must(t, other.Release(ctx, me, []wire.ReleaseRequest{{Path: q}}, false, ""))
	lostBy(t, second, ErrExpired)
	must(t, first.Err()) // it is held, and known to be
	if err := second.Unlock(); !IsLost(err) {
		t.Fatalf("Unlock of the lost lock: %v", err)
	}
	eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
	if owner := ownerOf(t, other, p); first.Err() != nil || owner != me {
		t.Fatalf("the server says that %s is held by %q, and the client: %v", p, owner, first.Err())
	}
}
