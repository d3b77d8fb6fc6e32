package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCloseUnderARaisedToken: a request of a lock's owner is given up after it was granted, and taken back; the lock's token
// was raised by it. Close gives the path back, also while another client of the owner keeps a lock in the namespace.
func TestCloseUnderARaisedToken(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, mate, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t)), dial(t, server(t))
	p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	owns := func(path string) string {
		i, err := other.InspectPath(ctx, path)
		must(t, err)
		return i.WriteOwner
	}
	theirs, err := mate.TryLock(ctx, r, Owner(me), TTL(time.Hour))
	mustLock(t, theirs, err)
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)
	eventually(t, "that the client has looked at what its owner holds", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return mine.since != nil && mine.since[0] != 0
	})
	line.held.Lock()
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.TryLockAll(gone, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(time.Hour))
		ended <- err
	}()
	eventually(t, "the grant", func() bool { return owns(q) == me })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("what was given up: %v", err)
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return owns(q) == "" })
	must(t, mine.Err())

	must(t, c.Close())
	for began := time.Now(); owns(p) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatalf("3 s after Close %s is locked by %q still", p, owns(p))
		}
	}
	must(t, theirs.Err())
}
