package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAnOrphanOfAForgottenSession: the caller of TryLock goes in an outage in which what it asked for was carried out,
// and which lasts until servers have forgotten the session. "What it took is released again in the background" (Do):
// the owner is one that the client made up for this lock alone, so nothing else can be held in its name.
func TestAnOrphanOfAForgottenSession(t *testing.T) {
	t.Parallel()
	c, other := newAway(t), dial(t, server(t))
	p := path(t, "/a/p")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := make(chan error, 1)
	c.held.Lock() // nothing comes to the client any more
	go func() {
		_, err := c.TryLock(ctx, p, TTL(time.Hour))
		left <- err
	}()
	var owner string
	eventually(t, "that the lock is taken", func() bool { owner = ownerOf(t, other, p); return owner != "" })
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), owner, "") })
	c.down.Store(true)
	c.cut() // with the answer
	c.held.Unlock()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.forgotten()
	must(t, c.Ping(within(t, patience)))
	c.settled(t)
	must(t, c.Ping(within(t, patience)))
	eventually(t, "that what nobody knows of is given back", func() bool { return ownerOf(t, other, p) == "" })
}
