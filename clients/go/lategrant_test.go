package pathlockd

import (
	"testing"
	"time"
)

// TestALateGrantIsNotBelievedInByALease: that its owner has a lease by now does not say that a
// lock is held whose grant was told late: the lease that it was in may be over, and this
// another one.
func TestALateGrantIsNotBelievedInByALease(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(slowLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q := path(t, "/a/b"), path(t, "/a/c")
	const ttl = 4 * time.Second

	line.held.Lock()
	first, second := make(chan takenLock, 1), make(chan takenLock, 1)
	try := func(p string, to chan takenLock) {
		l, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
		to <- takenLock{l, err}
	}
	owner := func(p string) string {
		i, err := other.InspectPath(ctx, p)
		must(t, err)
		return i.WriteOwner
	}
	go try(p, first)
	eventually(t, "the first lock", func() bool { return owner(p) == "me" })
	theirs, err := other.Lock(ctx, p) // once the lease is over
	mustLock(t, theirs, err)
	go try(q, second)
	eventually(t, "the second lock", func() bool { return owner(q) == "me" })
	line.held.Unlock()

	b := <-second
	mustLock(t, b.l, b.err)
	a := <-first
	if a.err != nil {
		return
	}
	told := time.Now()
	for a.l.Err() == nil && time.Since(told) < ttl/8 {
		time.Sleep(time.Millisecond)
	}
	if a.l.Err() == nil {
		must(t, theirs.Err())
		t.Fatalf("two owners hold %s for %v: %s and %s, which has had it since the first one's lease was over",
			p, time.Since(told).Round(time.Millisecond), a.l.Owner(), theirs.Owner())
	}
}
