package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnlockNamesTokenAndRequest: what others ask for in a lock's owner's name may raise its token, and be given back
// with nobody told of that token; a release under the token that the lock knows does not give the path back then. So of
// owners that the program names the release names the acquire that took the lock as well; so it does of one that the
// client made up and in whose name the program has asked since. Reads and permits go by themselves, and of other owners
// that the client made up the token is enough.
func TestUnlockNamesTokenAndRequest(t *testing.T) {
	for name, one := range map[string]struct {
		mode Mode
		opts []LockOption
		asks bool // the program, in the owner's name
		both bool
	}{
		"an owner that the program names":  {Write, []LockOption{Owner("me")}, false, true},
		"a read of one":                    {Read, []LockOption{Owner("me")}, false, false},
		"an owner of its own":              {Write, nil, false, false},
		"one of its own that is asked for": {Write, nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, peer := f.client()
				locked := make(chan *Lock)
				go func() {
					l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/p", Mode: one.mode}}, one.opts...)
					locked <- mustLock(t, l, err)
				}()
				a := peer.want(wire.OpAcquire)
				if a.req.Locks[0].Mode == wire.ModeRead {
					peer.reply(a.id, a.req.Op, &wire.Result{Namespace: "a:/b"})
				} else {
					peer.ok(a)
				}
				l := <-locked
				if one.asks {
					c.Go(takesPath(l.Owner(), "a:/b/q"), nil)
					peer.ok(peer.wantPast(wire.OpAcquire))
				}
				freed := make(chan error, 1)
				go func() { freed <- l.Unlock() }()
				r := peer.wantPast(wire.OpRelease)
				if r.req.Token != l.Token() || (r.req.Target == a.id) != one.both || !one.both && r.req.Target != 0 {
					t.Errorf("the release names token %d and request %d, of %d and %d", r.req.Token, r.req.Target,
						l.Token(), a.id)
				}
				peer.ok(r)
				must(t, <-freed)
			})
		})
	}
}

// takesPath asks for a path in an owner's name.
func takesPath(owner, path string) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}},
	}
}

// TestRaisedByWhatIsGivenUpInTheNameOfALock: the same of a lock without an owner that the program names, asked for and
// given up in the name of its own owner (Lock.Owner).
func TestRaisedByWhatIsGivenUpInTheNameOfALock(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q, x := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/x")
	l, err := c.TryLock(ctx, p, TTL(time.Hour))
	mustLock(t, l, err)
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), l.Owner(), "") })
	theirs, err := other.TryLock(ctx, x)
	mustLock(t, theirs, err)
	_, err = c.TryLockAll(ctx, []Path{{Path: p}, {Path: x}}, Owner(l.Owner())) // it asks since when p is held
	if err == nil {
		t.Fatal("this shows nothing")
	}
	giveUp(t, c, line, l.Owner(), p, q)
	must(t, l.Err())
	must(t, l.Unlock())
	eventually(t, "that the path is free", func() bool { return ownerOf(t, other, p) == "" })
}

// giveUp asks for paths in an owner's name and leaves once they are granted, which the client is not told before.
// What is given up is taken back by its id; giveUp waits until the last path is free.
func giveUp(t *testing.T, c *Client, line *lossyLine, owner string, paths ...string) {
	t.Helper()
	seen := dial(t, server(t))
	var all []Path
	for _, p := range paths {
		all = append(all, Path{Path: p})
	}
	last := paths[len(paths)-1]
	gone, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	ended := make(chan error, 1)
	line.held.Lock()
	go func() {
		_, err := c.TryLockAll(gone, all, Owner(owner), TTL(time.Hour))
		ended <- err
	}()
	eventually(t, "the grant", func() bool { return ownerOf(t, seen, last) == owner })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("what was given up: %v", err)
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return ownerOf(t, seen, last) == "" })
}

// TestRaisedByWhatIsGivenUp: somebody asks in a lock's owner's name for its path and another one, and gives that up
// after it was granted. The path is held under the later token then, which the lock's client need not have heard of.
// What gives the lock back gives its path back all the same.
func TestRaisedByWhatIsGivenUp(t *testing.T) {
	unlock := func(_ *Client, l *Lock) error { return l.Unlock() }
	for name, one := range map[string]struct {
		locks int  // of the owner on the path
		look  bool // the client has looked at what the owner holds before
		mate  bool // another client of the owner asks
		stays bool // another client of the owner keeps a lock in the namespace
		free  func(*Client, *Lock) error
	}{
		"by another client, before a look": {locks: 1, mate: true, free: unlock},
		"by another client, after a look":  {locks: 1, mate: true, look: true, free: unlock},
		"as the fifth that relies on it":   {locks: 4, look: true, free: unlock},
		"under Close": {locks: 1, look: true, stays: true,
			free: func(c *Client, _ *Lock) error { return c.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			line := new(lossyLine)
			c, mate, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t)),
				dial(t, server(t))
			asks := c
			if one.mate {
				c, asks = mate, c
			}
			p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), t.Name()
			t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
			if one.stays {
				theirs, err := mate.TryLock(ctx, r, Owner(me), TTL(time.Hour))
				mustLock(t, theirs, err)
				defer func() { must(t, theirs.Err()) }()
			}
			var all []*Lock
			for range one.locks {
				l, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
				all = append(all, mustLock(t, l, err))
			}
			last := all[one.locks-1]
			if one.look {
				isWatched(t, c, last)
			}
			giveUp(t, asks, line, me, p, q)

			must(t, last.Err())
			if owner := ownerOf(t, other, p); owner != me {
				t.Fatalf("%s is held by %q", p, owner)
			}
			must(t, one.free(c, last))
			for _, l := range all[:one.locks-1] { // lost with it, or given back
				_ = l.Unlock()
			}
			eventually(t, "that the path is free", func() bool { return ownerOf(t, other, p) == "" })
		})
	}
}

// TestRaisedBeforeItWasKept: a lock is granted, and right after a request of its owner for its path and another one,
// whose caller has gone, which raises the token. The client hears of both before the first is among the locks that it
// keeps. Unlock gives the path back all the same.
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
		l, err := c.LockAll(gone, []Path{{Path: p}, {Path: q}}, Owner("me"), TTL(time.Hour),
			OnQueued(func(Queued) { waits <- struct{}{} }))
		second <- takenLock{l, err}
	}()
	<-waits

	line.held.Lock()
	must(t, theirs.Unlock())
	eventually(t, "both grants", func() bool { return ownerOf(t, other, p) == "me" && ownerOf(t, other, q) == "me" })
	cancel()
	if l := <-second; !errors.Is(l.err, context.Canceled) {
		t.Fatalf("the request that was given up: %v", l.err)
	}
	line.held.Unlock()
	eventually(t, "that what was given up is taken back", func() bool { return ownerOf(t, other, q) == "" })
	close(goOn)

	mine := <-first
	mustLock(t, mine.l, mine.err)
	must(t, mine.l.Err())
	must(t, mine.l.Unlock())
	eventually(t, "that the path is free", func() bool { return ownerOf(t, other, p) == "" })
}

// TestRaisedByALockThatIsLost: a lock on p, then one on p and q of the same owner and client, which raises p's token,
// then one on q and r, whose Unlock takes q along, so that the second is lost. When all three are unlocked nothing is
// held.
func TestRaisedByALockThatIsLost(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	first, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, first, err)
	isWatched(t, c, first)
	second, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(time.Hour))
	mustLock(t, second, err)
	third, err := c.TryLockAll(ctx, []Path{{Path: q}, {Path: r}}, Owner(me), TTL(time.Hour))
	mustLock(t, third, err)
	must(t, third.Unlock())
	must(t, first.Err())
	if owner := ownerOf(t, other, p); owner != me {
		t.Fatalf("%s is held by %q", p, owner)
	}
	must(t, first.Unlock())
	if err := second.Unlock(); !errors.Is(err, ErrLost) {
		t.Fatalf("the second lock, which the third took along: %v", err)
	}
	eventually(t, "that the path is free", func() bool { return ownerOf(t, other, p) == "" })
}
