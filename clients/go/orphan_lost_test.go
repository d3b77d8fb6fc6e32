package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestAnOrphanThatIsLostInPartHoldsNothing is TestALockThatIsLostInPartHoldsNothing with a caller that has gone: a lock
// of two paths is taken, its answer is lost with the connection, and its caller's context ends. Another lock of its
// owner gives one path back, and somebody else takes that. The repeat says LOST. Nobody is told of the lock, so the
// other path is not held either.
func TestAnOrphanThatIsLostInPartHoldsNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(2*patience)), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	first, err := c.TryLock(ctx, p, Owner("me"))
	mustLock(t, first, err)
	eventually(t, "that it is known since when the path is held", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return first.since != nil
	})
	line.held.Lock()
	second, freed := make(chan takenLock, 1), make(chan error, 1)
	short, leave := context.WithCancel(ctx)
	go func() {
		l, err := c.TryLockAll(short, []Path{{Path: p}, {Path: q, Mode: Read}}, Owner("me"), TTL(time.Hour))
		second <- takenLock{l, err}
	}()
	eventually(t, "the second lock", func() bool {
		i, err := other.InspectPath(ctx, q)
		must(t, err)
		return len(i.ReadOwners) > 0
	})
	go func() { freed <- first.Unlock() }()
	theirs, err := other.Lock(ctx, p) // once the release was carried out
	mustLock(t, theirs, err)
	leave()
	mine := <-second
	if mine.err == nil {
		t.Fatal("granted")
	}
	line.cut()
	line.held.Unlock()
	must(t, <-freed)
	eventually(t, "that the other path is free", func() bool {
		i, err := other.InspectPath(ctx, q)
		must(t, err)
		return len(i.ReadOwners) == 0
	})
}
