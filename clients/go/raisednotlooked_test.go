package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestRaisedByAMateAndNotLookedAt: another client of its owner asks for a lock's path together with another one and gives that
// up after it was granted. It is taken back by its id, and the first lock's path is held under the later token, which its
// client has not heard of. Unlock gives the path back all the same.
func TestRaisedByAMateAndNotLookedAt(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, mate, other := dial(t, server(t)), dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q, me := path(t, "/a/p"), path(t, "/a/q"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	owns := func(path string) string {
		i, err := other.InspectPath(ctx, path)
		must(t, err)
		return i.WriteOwner
	}
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
		_, err := mate.TryLockAll(gone, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(time.Hour))
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
	must(t, mine.Unlock())
	for began := time.Now(); owns(p) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatalf("3 s after Unlock answered nil %s is locked by %q still, for the rest of an hour", p, owns(p))
		}
	}
}
