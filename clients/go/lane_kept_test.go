package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALockKeepsItsLane: a lock of an owner that the program names, or in whose name it asks later, was taken by a lane
// whose node has lost the lead since, 30 s ago or more. Unlock names the request that took it, on its lane, whether it
// is held still or was lost.
func TestALockKeepsItsLane(t *testing.T) {
	me, moment := []LockOption{Owner("me")}, 15*time.Second
	for name, one := range map[string]struct {
		lost bool
		opts []LockOption
		more time.Duration
	}{
		"it is held":                        {false, me, moment},
		"it is held for long":               {false, me, 3 * idleLane},
		"it was lost":                       {true, me, moment},
		"it is held by an owner of its own": {false, nil, 3 * idleLane},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				silent := make(chan struct{})
				f.serve = func(_ *peer, a *asked) *wire.Result {
					select {
					case <-silent:
						if a.req.Op == wire.OpRenew {
							return nil
						}
					default:
					}
					return granted(a.req)
				}
				l, err := c.TryLock(context.Background(), in(0), append(one.opts, TTL(6*time.Second))...)
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire)
				if by.node != "n1" {
					t.Fatalf("the lock was taken by way of %s", by.node)
				}
				if one.opts == nil {
					c.Go(takesPath(l.Owner(), in(0)+"/q"), nil)
				}
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(15 * time.Second)
				must(t, l.Err())
				if one.lost {
					close(silent)
				}
				pass(one.more)
				if err := l.Unlock(); IsLost(err) != one.lost {
					t.Fatalf("Unlock: %v", err)
				}
				pass(time.Second)
				r := f.last(wire.OpRelease)
				if r.req.Owner != l.Owner() || r.req.Target != by.id || r.session != by.session {
					t.Errorf("the last release is %q's, names request %d and comes by %s; the lock was taken "+
						"by request %d", r.req.Owner, r.req.Target, r.node, by.id)
				}
			})
		})
	}
}

// TestALockOfAMoment: a lane has looked idle for nearly idleLane. For a moment, between two turns of the keeper,
// requests go by it, one of which takes a lock. The lane stays for that.
func TestALockOfAMoment(t *testing.T) {
	ctx := context.Background()
	leads := func(f *fakeCluster, leaders ...int) {
		f.lead(leaders...)
		f.tell()
		pass(2 * time.Millisecond)
	}
	binds := func(c *Client) {
		if _, err := c.Bind(ctx, "o", time.Minute, 0); err != nil {
			panic(err)
		}
	}
	for name, one := range map[string]struct {
		unused, used func(f *fakeCluster, c *Client)
	}{
		"its node leads for a moment": {
			func(f *fakeCluster, _ *Client) { leads(f, 0, 0, 0, 0) },
			func(f *fakeCluster, _ *Client) { leads(f, 0, 2, 0, 0) },
		},
		"the program has no owner bound for a moment": { // of one it has all goes by the home lane
			func(_ *fakeCluster, c *Client) { binds(c) },
			func(_ *fakeCluster, c *Client) {
				if err := c.Unbind(ctx, "o"); err != nil {
					panic(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 3, 1, 2, 0, 0)
				f.tells = true
				c := f.client()
				f.warm(c)
				x, err := c.TryLock(ctx, in(0), TTL(time.Hour)) // by n1's lane, so that what locks hang on is asked
				mustLock(t, x, err)
				y, err := c.TryLock(ctx, in(2), TTL(2*time.Second)) // so that the keeper has many turns
				mustLock(t, y, err)
				pass(10500 * time.Millisecond)
				leads(f, 0, 2, 0, 0)
				pass(20 * time.Second)
				one.unused(f, c)
				pass(2 * time.Second)
				c.router.mu.Lock()
				lane := c.router.mu.lanes["n2"]
				idle := lane.idle
				c.router.mu.Unlock()
				if idle == 0 {
					t.Fatal("this shows nothing: the lane does not look idle")
				}
				pass(idle + idleLane - c.now() - 1300*time.Millisecond)
				one.used(f, c)
				l, err := c.TryLock(ctx, in(1), TTL(time.Hour))
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire)
				one.unused(f, c)
				if by.node != "n2" {
					t.Fatal("this shows nothing: the lock was taken by", by.node)
				}
				pass(2 * time.Minute)
				if err := l.Err(); err != nil {
					t.Errorf("nothing was wrong, and the lock is lost: %v", err)
				}
			})
		})
	}
}

// TestLaneOfNothing: a lane stays for a minute by which a path was taken that hangs on no connection, or a lock that
// was given back.
func TestLaneOfNothing(t *testing.T) {
	const ttl = 10 * time.Minute
	for name, take := range map[string]func(t *testing.T, c *Client){
		"not tied": func(_ *testing.T, c *Client) { c.Go(takesFor("me", in(0), ttl, wire.FlagNoQueue), nil) },
		"a Lock given back": func(t *testing.T, c *Client) {
			l, err := c.Lock(context.Background(), in(0), TTL(ttl))
			mustLock(t, l, err)
			pass(time.Second)
			must(t, l.Unlock())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				take(t, c)
				pass(time.Second)
				byN1(t, f)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(3 * idleLane)
				if lanes := len(c.router.all()); lanes != 1 {
					t.Errorf("%d lanes long after that", lanes)
				}
			})
		})
	}
}
