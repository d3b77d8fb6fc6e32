package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestASupersededLockIsLost: another client of the owner gives the path back, a stranger has it, and the other client
// takes it anew. That the owner holds the path does not say that it is by the first lock: of a write its token does,
// and of a read since when it is held, once that was told.
func TestASupersededLockIsLost(t *testing.T) {
	for name, try := range map[string]func(*Client, context.Context, string, ...LockOption) (*Lock, error){
		"write": (*Client).TryLock, "read": (*Client).TryRLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			c, mate, stranger := dial(t, server(t)), dial(t, server(t)), dial(t, server(t))
			p := path(t, "/a/p")
			const ttl = 4 * time.Second
			take := func(c *Client) *Lock {
				l, err := try(c, ctx, p, Owner("me"), TTL(ttl))
				return mustLock(t, l, err)
			}
			mine := take(c)
			eventually(t, "that it is known since when the path is held", func() bool {
				c.keeper.mu.Lock()
				defer c.keeper.mu.Unlock()
				return mine.since != nil || mine.paths[0].Mode == Write
			})
			must(t, take(mate).Unlock())
			theirs, err := stranger.TryLock(ctx, p)
			mustLock(t, theirs, err)
			must(t, theirs.Unlock())
			again := take(mate)
			for began := time.Now(); mine.Err() == nil; time.Sleep(10 * time.Millisecond) {
				if time.Since(began) > 3*ttl {
					t.Fatalf("the lock with token %d is believed in for %v more: the path had token %d "+
						"since, and has %d", mine.Token(),
						time.Until(mine.Deadline()).Round(time.Second), theirs.Token(), again.Token())
				}
			}
			must(t, again.Err())
		})
	}
}

// TestALateGrantHasTheTokenItIsHeldUnder: a grant is told late, when its lease is over, a stranger has had the path,
// and another client of the owner has it now. That the owner holds the path does not say that it is by this grant.
func TestALateGrantHasTheTokenItIsHeldUnder(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(slowLine)
	c := dial(t, server(t), WithDialer(line.dial), WithGrace(patience))
	mate, stranger := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	const ttl = 2 * time.Second

	line.held.Lock()
	told := make(chan takenLock, 1)
	go func() {
		l, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
		told <- takenLock{l, err}
	}()
	eventually(t, "the grant", func() bool {
		i, err := stranger.InspectPath(ctx, p)
		must(t, err)
		return i.WriteOwner == "me"
	})
	theirs, err := stranger.Lock(ctx, p) // once the lease is over
	mustLock(t, theirs, err)
	must(t, theirs.Unlock())
	ours, err := mate.TryLock(ctx, p, Owner("me"))
	mustLock(t, ours, err)
	line.held.Unlock()

	late := <-told
	if late.err != nil {
		return
	}
	a, err := mate.AssertFencing(ctx, "me", late.l.Token(), p)
	must(t, err)
	if a.Status != wire.StatusOK {
		must(t, late.l.Err())
		t.Fatalf("TryLock answers a lock with token %d, though the path has had token %d of %s, and %d since: "+
			"assert says %v", late.l.Token(), theirs.Token(), theirs.Owner(), ours.Token(), a.Reason)
	}
}

// TestARaisedLockStays: what its owner takes together with a path raises the token of a lock on it, and the path is
// held all the time: by a request of the same client, at once, and by one of another client, once the server was asked.
func TestARaisedLockStays(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, mate := dial(t, server(t)), dial(t, server(t))
	p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), Owner("me")
	const ttl = 2 * time.Second
	first, err := c.TryLock(ctx, p, me, TTL(ttl))
	mustLock(t, first, err)
	for i, raise := range []struct {
		c    *Client
		with string
	}{{c, q}, {mate, r}} {
		more, err := raise.c.TryLockAll(ctx, []Path{{Path: p}, {Path: raise.with}}, me, TTL(ttl))
		mustLock(t, more, err)
		if more.Token() <= first.Token() {
			t.Fatalf("token %d after %d", more.Token(), first.Token())
		}
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if err := first.Err(); err != nil {
				t.Fatalf("after the token was raised %d times: %v", i+1, err)
			}
		}
	}
}
