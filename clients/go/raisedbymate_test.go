package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestRaisedByAnotherClient: another client of its owner raises a lock's token, and takes its request back. Unlock gives
// the path back.
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
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)

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
	if err := <-ended; err == nil {
		t.Fatal("what was given up was granted")
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return owns(q) == "" })

	must(t, mine.Err())
	if owns(p) != me {
		t.Fatalf("%s is held by %q", p, owns(p))
	}
	must(t, mine.Unlock())
	eventually(t, "that the path is free", func() bool { return owns(p) == "" })
}
