package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestRaisedBeforeItWasKept: a lock is granted, and right after a request of its owner for its path and another one, whose
// caller has gone, which raises the token. The client hears of both before the first is among the locks that it keeps.
// Unlock gives the path back all the same.
func TestRaisedBeforeItWasKept(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	theirs, err := other.Lock(ctx, p)
	mustLock(t, theirs, err)

	queued, goOn := make(chan struct{}, 8), make(chan struct{})
	first := make(chan takenLock, 1)
	go func() {
		l, err := c.Lock(ctx, p, Owner("me"), TTL(time.Hour), OnQueued(func(Queued) {
			queued <- struct{}{}
			<-goOn // its goroutine gets no time for a while
		}))
		first <- takenLock{l, err}
	}()
	<-queued
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	second, waits := make(chan takenLock, 1), make(chan struct{}, 8)
	go func() {
		l, err := c.LockAll(gone, []Path{{Path: p}, {Path: q}}, Owner("me"), TTL(time.Hour), OnQueued(func(Queued) { waits <- struct{}{} }))
		second <- takenLock{l, err}
	}()
	<-waits

	line.held.Lock()
	must(t, theirs.Unlock())
	owns := func(path string) string {
		i, err := other.InspectPath(ctx, path)
		must(t, err)
		return i.WriteOwner
	}
	eventually(t, "both grants", func() bool { return owns(p) == "me" && owns(q) == "me" })
	cancel()
	if l := <-second; !errors.Is(l.err, context.Canceled) {
		t.Fatalf("the request that was given up: %v", l.err)
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return owns(q) == "" })
	close(goOn)

	mine := <-first
	mustLock(t, mine.l, mine.err)
	must(t, mine.l.Err())
	must(t, mine.l.Unlock())
	eventually(t, "that the path is free", func() bool { return owns(p) == "" })
}
