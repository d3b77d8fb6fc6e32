package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPollsInTheNameOfALock: a program has many places in the queue with something to give back, of many owners. Then
// it takes a lock without naming an owner, and gets a place in the queue in the name of the lock's own owner
// (Lock.Owner), by an acquire that is to give the lock's path back. Later its turn comes.
func TestPollsInTheNameOfALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		if !s.rival("a:/b/d") || !s.rival("a:/q/d") {
			t.Fatal("this shows nothing")
		}
		for i := range mostLingering {
			req := turning(24 * time.Hour)
			req.Owner = fmt.Sprint("o", i)
			req.Locks = []wire.LockRequest{{Path: "a:/q/d"}}
			asksFor(t, c, req, wire.StatusQueued)
			must(t, c.ReleaseAll(t.Context(), req.Owner, false, ""))
		}
		l, err := c.Lock(context.Background(), "a:/b/c", TTL(time.Hour))
		mustLock(t, l, err)
		req := turning(24 * time.Hour)
		req.Owner = l.Owner()
		asksFor(t, c, req, wire.StatusQueued)
		pass(time.Minute)
		s.isHeld(l)
		s.rivalGives("a:/b/d")
		s.isNobodys(l)
	})
}

// TestRaisedInTheNameOfALock: a program takes a lock without naming an owner, and asks for its path once more, with
// another one, in the name of the lock's own owner, by Do. Later it asks for a third path, which somebody else has, and
// would give the lock's path back for it: that changes nothing. The owner holds the path all the time.
func TestRaisedInTheNameOfALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c, s := newTimed(t)
		l, err := c.Lock(ctx, "a:/b/c", TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Minute)
		asksFor(t, c, &wire.Request{
			Owner: l.Owner(), TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/c"}, {Path: "a:/b/e"}},
		}, wire.StatusOK)
		pass(time.Minute)
		s.isHeld(l)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		req := turning(time.Minute)
		req.Owner, req.Flags = l.Owner(), wire.FlagNoQueue
		asksFor(t, c, req, wire.StatusConflict)
		pass(10 * time.Second)
		s.isHeld(l)
	})
}

// TestSeveralRaisedInTheNameOfALock: the same with a lock of two paths, which is looked at once in a TTL: nothing is
// given back at all.
func TestSeveralRaisedInTheNameOfALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c, s := newTimed(t)
		l, err := c.LockAll(ctx, []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, TTL(time.Minute))
		mustLock(t, l, err)
		pass(time.Second)
		asksFor(t, c, &wire.Request{
			Owner: l.Owner(), TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/c"}, {Path: "a:/b/e"}},
		}, wire.StatusOK)
		pass(5 * time.Minute)
		s.isHeld(l)
	})
}
