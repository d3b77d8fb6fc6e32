package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestUnlockOfAPathThatFiveAskedFor: four locks of one owner on a path, and a request for it and another one, which is given up after
// it was granted: it raised the token, and is the fifth that relies on the path. When the locks are unlocked nothing is held.
func TestUnlockOfAPathThatFiveAskedFor(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q, me := path(t, "/a/p"), path(t, "/a/q"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	owns := func(path string) string {
		i, err := other.InspectPath(ctx, path)
		must(t, err)
		return i.WriteOwner
	}
	var all []*Lock
	for range 4 {
		l, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
		all = append(all, mustLock(t, l, err))
	}
	eventually(t, "that the client has looked at what its owner holds", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return all[3].since != nil && all[3].since[0] != 0 && all[3].lease != nil && all[3].lease.watched
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

	must(t, all[3].Unlock())
	for _, l := range all[:3] { // lost with it, or given back
		_ = l.Unlock()
	}
	for began := time.Now(); owns(p) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatalf("3 s after Unlock of all locks on it answered, one of them nil, %s is locked by %q still, for the rest of an hour", p, owns(p))
		}
	}
}
