package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestRaisedByAnotherClient: another client of its owner raises a lock's token, and takes its request back. The client
// learns of the token when it looks at what the owner holds; Unlock gives the path back.
func TestRaisedByAnotherClient(t *testing.T) {
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
	const ttl = 9 * time.Second
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(ttl))
	mustLock(t, mine, err)
	eventually(t, "that it is known since when the path is held", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return mine.since != nil && mine.since[0] != 0
	})

	line.held.Lock()
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := mate.TryLockAll(gone, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(ttl))
		ended <- err
	}()
	eventually(t, "the grant", func() bool { return owns(q) == me })
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("what was given up was granted")
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return owns(q) == "" })

	eventually(t, "that the client looks, once in a TTL", func() bool { return c.keeper.raised(mine) })
	must(t, mine.Err())
	if owns(p) != me {
		t.Fatalf("%s is held by %q", p, owns(p))
	}
	must(t, mine.Unlock())
	for began := time.Now(); owns(p) != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second { // its lease ends later than that
			t.Fatalf("3 s after Unlock answered nil %s is locked by %q still", p, owns(p))
		}
	}
}
