package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenAnewInTheNameOfALock: a program takes a lock without naming an owner, and then another path in the name of
// the lock's own owner. Before that is carried out the connection breaks. Meanwhile the owner is killed, and nobody
// hears of it. The acquire is asked again on the next connection, ahead of the lock's renewal, and so its owner has a
// lease again that a renewal finds: the lock's path is not of it.
func TestTakenAnewInTheNameOfALock(t *testing.T) {
	for name, send := range map[string]func(c *Client, req *wire.Request) error{
		"Go": func(c *Client, req *wire.Request) error { c.Go(req, nil); return nil },
		"Batch": func(c *Client, req *wire.Request) error {
			b := c.Batch()
			if err := b.Add(req, nil); err != nil {
				return err
			}
			return b.Send(context.Background())
		},
		"Acquire": func(c *Client, req *wire.Request) error {
			go func() { _, _ = c.Acquire(context.Background(), req) }()
			return nil
		},
		"TryLock": func(c *Client, req *wire.Request) error { return takesIn(c.TryLock, req) },
		"Lock":    func(c *Client, req *wire.Request) error { return takesIn(c.Lock, req) },
	} {
		t.Run(name, func(t *testing.T) { takenAnew(t, send) })
	}
}

// takesIn asks for what a request does by a method that takes a lock, for as long, and does not wait for it.
func takesIn(take func(context.Context, string, ...LockOption) (*Lock, error), req *wire.Request) error {
	path, owner := req.Locks[0].Path, req.Owner
	go func() { _, _ = take(context.Background(), path, Owner(owner), TTL(time.Hour)) }()
	return nil
}

func takenAnew(t *testing.T, send func(*Client, *wire.Request) error) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, s := newTimedAt(t, f, WithGrace(DefaultGrace))
		l, err := c.Lock(t.Context(), "a:/b/c", TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Minute)
		s.takes(always(0, map[wire.Op]time.Duration{wire.OpAcquire: 1000 * time.Hour}))
		must(t, send(c, &wire.Request{
			Op: wire.OpAcquire, Owner: l.Owner(), TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/e"}},
		}))
		pass(time.Millisecond)
		s.p.Close()
		s.other(&wire.Request{Op: wire.OpReleaseAll, Owner: l.Owner()})
		s.takes(nil)
		s.p = f.accept()
		s.p.tells, s.p.lists = wire.FeatureLeases, true
		s.p.welcome(testLimits)
		go s.p.serve(s.take)
		pass(time.Second)
		if !s.holds(l.Owner(), Path{Path: "a:/b/e"}) {
			t.Fatal("it did not take the other path: this shows nothing")
		}
		s.isNobodys(l)
	})
}
