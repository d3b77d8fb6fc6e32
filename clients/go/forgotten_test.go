package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// away is a client on one connection whose servers remember sessions for a second, by a clock that the test sets on.
type away struct {
	*Client
	lossyLine
	down atomic.Bool  // no connection can be made
	on   atomic.Int64 // ns that its clock is ahead
}

// newAway dials the shared node, which may be staged.
func newAway(t *testing.T, releases ...func(c *wire.Call) bool) *away {
	server(t)
	var handler wire.Handler = shared.n.node
	for _, f := range releases {
		handler = staged{shared.n.node, f}
	}
	short, err := loop.New(handler, loop.Options{
		NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: 1000,
	})
	must(t, err)
	t.Cleanup(func() { short.Close() })
	at, err := short.Listen("tcp", freeAddr(t))
	must(t, err)
	a := new(away)
	a.Client = dial(t, at.String(), WithGrace(time.Hour), WithOneConnection(), WithDialer(a.way),
		withClock(func() time.Duration { return bubbleClock() + time.Duration(a.on.Load()) }))
	return a
}

func (a *away) way(ctx context.Context, network, addr string) (net.Conn, error) {
	if a.down.Load() {
		return nil, errors.New("there is no way")
	}
	return a.dial(ctx, network, addr)
}

// forgotten lets the time pass after which servers may have forgotten the session, and a connection be made again.
func (a *away) forgotten() {
	a.on.Add(int64(2 * time.Second))
	a.down.Store(false)
}

// settled waits until nothing is under way any more that gives back.
func (a *away) settled(t *testing.T) {
	t.Helper()
	eventually(t, "that what gives back is over", func() bool { return a.gates.shut.Load() == 0 })
}

// TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain: a read or a permit is given back, which is carried out, but the
// answer is lost with the connection, and until there is another one the servers forget the session. Meanwhile another
// client of the owner has taken the path anew. The release is not sent again, as nothing tells that later hold from the
// first: a server lets a permit go whatever token a release names.
func TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain(t *testing.T) {
	read := func(ctx context.Context, c *Client, p string, opts ...LockOption) (*Lock, error) {
		return c.TryRLock(ctx, p, opts...)
	}
	both := func(ctx context.Context, c *Client, p string, opts ...LockOption) (*Lock, error) {
		return c.TryLockAll(ctx, []Path{{Path: p, Mode: Read}, {Path: p + "/q"}}, opts...)
	}
	permit := func(ctx context.Context, c *Client, p string, opts ...LockOption) (*Lock, error) {
		return c.TrySemaphore(ctx, p, 1, opts...)
	}
	for name, one := range map[string]struct {
		take   func(context.Context, *Client, string, ...LockOption) (*Lock, error)
		opts   []LockOption
		within time.Duration // what Unlock has
	}{
		"a read":                         {read, nil, patience},
		"a read whose Unlock gives up":   {read, nil, 500 * time.Millisecond}, // and goes on in the background
		"a read beside a write":          {both, nil, patience},
		"a permit taken with a token":    {permit, []LockOption{Token(7)}, patience},
		"a permit whose Unlock gives up": {permit, []LockOption{Token(7)}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			c, mate, stranger := newAway(t), dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
			p, me := path(t, "/a/p"), []LockOption{Owner(t.Name()), TTL(time.Hour)}
			if one.opts != nil {
				must(t, stranger.SetNamespacePolicy(ctx, path(t, "/a"), wire.Semaphore, ""))
			}
			holders := func() int {
				i, err := stranger.InspectPath(ctx, p)
				must(t, err)
				return len(i.ReadOwners) + len(i.SemaphoreOwners)
			}
			mine, err := one.take(ctx, c.Client, p, append(one.opts, me...)...)
			mustLock(t, mine, err)

			c.held.Lock()
			c.down.Store(true)
			freed := make(chan error, 1)
			go func() { freed <- mine.UnlockContext(within(t, one.within)) }()
			eventually(t, "the release", func() bool { return holders() == 0 })
			c.cut() // its answer is lost
			c.held.Unlock()
			if one.within < patience {
				<-freed // nobody waits for it any more
			}
			later, err := one.take(ctx, mate, p, me...)
			mustLock(t, later, err)
			c.forgotten()

			if one.within == patience {
				<-freed
			}
			c.settled(t)
			must(t, c.Ping(ctx))
			if holders() != 1 {
				t.Fatalf("%s was given back twice, and the other client's later hold is sure for %v more", p,
					time.Until(later.Deadline()).Round(time.Second))
			}
			must(t, later.Err())
		})
	}
}

// TestAnUnlockThatGaveUpGoesOn: Unlock of a held lock whose owner the program names does not reach the server in its
// time, and before the release in the background does, the session that took the lock is forgotten. It goes by the
// token then.
func TestAnUnlockThatGaveUpGoesOn(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := newAway(t), dial(t, server(t))
	p, me := path(t, "/a/p"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)

	c.down.Store(true)
	c.cut()
	must(t, mine.Err())
	if err := mine.UnlockContext(within(t, 500*time.Millisecond)); err == nil || IsLost(err) {
		t.Fatalf("Unlock without a connection: %v", err)
	}
	c.forgotten()
	must(t, c.Ping(ctx))
	eventually(t, "that the path is free", func() bool { return ownerOf(t, other, p) == "" })
}

// TestUnlockOfALockOfAnEarlierSession: a lock is lost as its client was away, and servers have forgotten its
// session. Its owner, whose lease another client kept, takes the path again and is answered the same token. Unlock
// of the lost lock does not give the later one away.
func TestUnlockOfALockOfAnEarlierSession(t *testing.T) {
	for name, opts := range map[string][]LockOption{
		"an owner that the program names": {Owner("me")},
		"an owner that it names later":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			c, mate, other := newAway(t), dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
			p, q := path(t, "/a/p"), path(t, "/a/q")
			first, err := c.TryLock(ctx, p, append(opts, TTL(time.Second))...)
			mustLock(t, first, err)
			me := Owner(first.Owner())
			keeps, err := mate.TryLock(ctx, q, me, TTL(time.Hour)) // the owner's lease lasts
			mustLock(t, keeps, err)

			c.held.Lock()
			c.down.Store(true)
			c.cut()
			c.held.Unlock()
			c.forgotten()
			if first.Err() == nil {
				t.Fatal("the first lock outlives its TTL")
			}

			second, err := c.TryLock(ctx, p, me, TTL(time.Hour))
			mustLock(t, second, err)
			if first.Token() != second.Token() {
				t.Fatalf("tokens %d and %d", first.Token(), second.Token())
			}
			isWatched(t, c.Client, second)
			must(t, second.Err())
			if err := first.Unlock(); !IsLost(err) { // as a deferred one does
				t.Fatalf("Unlock of the lost lock: %v", err)
			}
			if err := first.Err(); !IsLost(err) {
				t.Fatalf("the lost lock: %v", err)
			}
			c.settled(t)
			must(t, c.Ping(ctx))
			if owner := ownerOf(t, other, p); owner != first.Owner() {
				t.Fatalf("%s is held by %q: %v; the later lock is sure for %v more", p, owner, second.Err(),
					time.Until(second.Deadline()).Round(time.Second))
			}
			must(t, second.Err())
		})
	}
}
