package pathlockd

import (
	"testing"
	"time"
)

// TestAdv8RefusedLockOfSeveralPathsHoldsNothing: while a lock of two paths is asked for, another lock of its owner gives one of
// them back, and somebody else takes that. The client finds that it has not all paths, asks anew, and is refused: the caller gets
// a ConflictError, and the other path stays locked in the owner's name for the TTL, an hour, with nobody who knows of it.
// That breaks LockAll's and PROTOCOL.md's "takes all the paths or none" and TryLock's that a ConflictError holds nothing.
func TestAdv8RefusedLockOfSeveralPathsHoldsNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(slowLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	const ttl = time.Hour
	first, err := c.TryLock(ctx, p, Owner("me"))
	mustLock(t, first, err)

	eventually(t, "that it is known since when the path is held", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return first.since != nil
	})
	line.held.Lock() // the server's answers are on their way for a while
	second, freed := make(chan takenLock, 1), make(chan error, 1)
	go func() {
		l, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q, Mode: Read}}, Owner("me"), TTL(ttl))
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
	line.held.Unlock()

	must(t, <-freed)
	mine := <-second
	if mine.err == nil {
		t.Fatalf("two owners hold %s", p)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		i, err := other.InspectPath(ctx, q)
		must(t, err)
		if len(i.ReadOwners) == 0 {
			return
		}
		if time.Since(began) > 3*time.Second {
			locks, _, err := other.ListOwnerLocks(ctx, "me")
			must(t, err)
			t.Fatalf("the caller was told %q, and %v later %s is held by %v for %v more", mine.err, time.Since(began).Round(time.Second), q,
				i.ReadOwners, time.Duration(locks[0].ExpiresInMillis)*time.Millisecond)
		}
	}
}
