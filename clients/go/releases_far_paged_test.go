package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfBesideManyPathsFarAway: an acquire of the program's own is to give back a lock's path, and is
// refused, or what no lock has, and waits since before a lock of its owner was asked for. Nothing is given back, and
// nothing is wrong. The owner holds so much, on so long a way, that it takes long until all of it is told. No lock is
// lost by that.
func TestReleasesItselfBesideManyPathsFarAway(t *testing.T) {
	for name, tc := range map[string]struct {
		paths int           // that are told before those of the last lock
		way   time.Duration // there and back
		waits bool
	}{
		"20 000 paths, 100 ms":       {paths: 20_000, way: 100 * time.Millisecond},
		"600 paths, 600 ms":          {paths: 600, way: 600 * time.Millisecond},
		"600 paths, 600 ms, waiting": {paths: 600, way: 600 * time.Millisecond, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				ctx := context.Background()
				s, p := aNode()
				p.late(tc.way / 2)
				c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
				other, err := c.Lock(ctx, "a:/0/other", Owner("other"), TTL(time.Hour))
				mustLock(t, other, err)
				own := &wire.Request{
					Op: wire.OpAcquire, Owner: "me", TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
					Locks: []wire.LockRequest{{Path: "a:/0/other"}}, Releases: []wire.ReleaseRequest{{Path: "a:/0/z"}},
				}
				if tc.waits {
					own.Flags, own.Releases[0].Path = wire.FlagWait, "a:/0/old"
					c.Go(own, nil)
					pass(5 * time.Second)
				}
				many, err := c.LockAll(ctx, longPaths(tc.paths), Owner("me"), TTL(time.Hour))
				mustLock(t, many, err)
				last := hours(t, c, "a:/0/z")
				pass(time.Minute)
				if !tc.waits {
					asksFor(t, c, own, wire.StatusConflict)
					pass(10 * time.Second)
				}
				for _, l := range []*Lock{many, last} {
					if err := l.Err(); err != nil {
						t.Errorf("nothing is wrong, and the lock on %s is lost: %v", l.Paths()[0].Path, err)
					}
				}
				must(t, c.Close())
				s.nodes[0].crash()
			})
		})
	}
}

// TestReleasesItselfBesideARenewalFarAway: a renewal without a look beside it is on its way when the program sends an
// acquire that gives a lock back, and waits. The lock is on the second page of what its owner holds, and nothing is
// wrong.
func TestReleasesItselfBesideARenewalFarAway(t *testing.T) {
	const way = 600 * time.Millisecond
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		manyBefore(t, c, 600)
		l := hours(t, c, "a:/b/c")
		pass(3 * time.Hour) // it is watched, and was looked at
		s.isHeld(l)
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		sent := make(chan bool, 1)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpRenew {
				select {
				case sent <- true:
				default:
				}
			}
			return way, false
		})
		<-sent
		pass(time.Millisecond)
		req := turning(10 * time.Minute)
		req.Op, req.Flags = wire.OpAcquire, wire.FlagWait
		c.Go(req, nil)
		pass(30 * time.Second)
		s.isHeld(l)
		s.takes(nil)
	})
}
