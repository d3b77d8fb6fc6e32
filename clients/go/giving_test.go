package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// staged is the shared node as one client sees it: releases may be answered otherwise, as by a node whose log stalls or
// has lost its leader.
type staged struct {
	*groups.Node
	releases func(c *wire.Call) (mine bool) // takes a release, and answers it
}

func (s staged) Serve(calls []*wire.Call) {
	var rest []*wire.Call
	for _, c := range calls {
		if c.Op != wire.OpRelease || !s.releases(c) {
			rest = append(rest, c)
		}
	}
	if len(rest) > 0 {
		s.Node.Serve(rest)
	}
}

// answers answers a call with a code.
func answers(c *wire.Call, code wire.Code) {
	c.Res = wire.Result{Code: code, Message: "the test says so"}
	c.To.Reply(c)
	c.To.Flush()
}

// instead hands a call back with another answer than the node's.
type instead struct {
	wire.Replier
	code wire.Code
}

func (i instead) Reply(c *wire.Call) {
	c.To, c.Res = i.Replier, wire.Result{Code: i.code, Message: "the test says so"}
	c.To.Reply(c)
}

// stage makes the shared node listen so.
func stage(t *testing.T, releases func(c *wire.Call) bool) string {
	t.Helper()
	server(t)
	srv, err := loop.New(staged{shared.n.node, releases}, loop.Options{
		NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: groups.RepeatMillis,
	})
	must(t, err)
	t.Cleanup(func() { srv.Close() })
	at, err := srv.Listen("tcp", freeAddr(t))
	must(t, err)
	return at.String()
}

// holders is how many hold a path.
func holders(t *testing.T, c *Client, path string) int {
	t.Helper()
	i, err := c.InspectPath(within(t, patience), path)
	must(t, err)
	return len(i.ReadOwners) + len(i.SemaphoreOwners)
}

// gaveUp unlocks a lock with too little time.
func gaveUp(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.UnlockContext(within(t, 300*time.Millisecond)); !errors.Is(err, ErrOutcomeUnknown) { // Unlock has 5 s
		t.Fatalf("Unlock: %v", err)
	}
}

// TestAReleaseGoesOnUnderItsID: Unlock of a lock whose owner the program names gives up, and the release goes on in the
// background. It was not carried out, and a server says that it does not know what became of it; or the connection
// breaks, and the repeat on the next one is answered UNAVAILABLE, as by a node without a leader. It is repeated under
// its id until it is answered, or goes by the request that took the lock.
func TestAReleaseGoesOnUnderItsID(t *testing.T) {
	for _, kind := range []string{"a read", "a permit", "a raised write"} {
		for how, broken := range map[string]bool{"the outcome is not known": false, "the repeat is refused": true} {
			t.Run(kind+", "+how, func(t *testing.T) {
				t.Parallel()
				ctx := within(t, patience)
				first, asked := make(chan *wire.Call, 1), uint64(0)
				var n atomic.Int32
				addr := stage(t, func(c *wire.Call) bool {
					switch n.Add(1) {
					case 1:
						asked = c.ID
						first <- c // it takes its time
						return true
					case 2:
						// What no token tells goes by its request from then on.
						if same := kind == "a raised write"; same != (c.ID == asked) || !same && c.Req.Target == 0 {
							t.Errorf("asked as %d of request %d, first as %d", c.ID, c.Req.Target, asked)
						}
						if broken {
							answers(c, wire.Unavailable)
						}
						return broken
					}
					return false // carried out
				})
				way, far := new(line), new(lossyLine)
				c := dial(t, addr, WithGrace(time.Hour), WithOneConnection(), WithDialer(way.dial))
				mate, other := dial(t, server(t), WithDialer(far.dial), WithGrace(patience)), dial(t, server(t))
				p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), t.Name()
				t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
				try := func(path string) (*Lock, error) { return c.TryLock(ctx, path, Owner(me), TTL(time.Hour)) }
				free := func() bool { return ownerOf(t, other, p) == "" }
				if kind != "a raised write" {
					free = func() bool { return holders(t, other, p) == 0 }
				}
				switch kind {
				case "a read":
					try = func(path string) (*Lock, error) { return c.TryRLock(ctx, path, Owner(me), TTL(time.Hour)) }
				case "a permit":
					must(t, other.SetNamespacePolicy(ctx, path(t, "/a"), wire.Semaphore, ""))
					try = func(path string) (*Lock, error) {
						return c.TrySemaphore(ctx, path, 1, Owner(me),
							TTL(time.Hour))
					}
				}
				beside, err := try(r) // the owner's lease lasts
				mustLock(t, beside, err)
				mine, err := try(p)
				mustLock(t, mine, err)
				if kind == "a raised write" {
					giveUp(t, mate, far, me, p, q)
				}

				gone := make(chan *wire.Call, 1)
				go func() {
					call := <-first
					if broken {
						way.cut(errUnreachable)
					}
					gone <- call
				}()
				gaveUp(t, mine)
				if call := <-gone; broken {
					way.mend()
				} else {
					answers(call, wire.DeadlineExceeded)
				}
				eventually(t, "that the path is free", free)
				must(t, beside.Err())
			})
		}
	}
}

// TestAReleaseThatWasCarriedOut: a read is released, but the node does not know in time what became of that, and then
// has no leader for a while; Unlock gives up between two repeats. The release goes by the request that took the read
// after that, and does not give away the read that another client of the owner took since.
func TestAReleaseThatWasCarriedOut(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	var n atomic.Int32
	var leads atomic.Bool
	ids, bare := make(map[uint64]bool), 0 // as its answers come one after the other
	addr := stage(t, func(c *wire.Call) bool {
		if ids[c.ID] = true; c.Req.Target == 0 {
			bare++
		}
		switch {
		case n.Add(1) == 1:
			c.To = instead{c.To, wire.DeadlineExceeded}
		case !leads.Load():
			answers(c, wire.Unavailable)
			return true
		}
		return false
	})
	c, mate := dial(t, addr, WithGrace(time.Hour), WithOneConnection()), dial(t, server(t), WithGrace(time.Hour))
	other := dial(t, server(t))
	p, me := path(t, "/a/p"), t.Name()
	mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)
	// A server that takes nothing for a second is left.
	if err := mine.UnlockContext(within(t, 700*time.Millisecond)); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("Unlock: %v", err)
	}
	if holders(t, other, p) != 0 {
		t.Fatal("the release was not carried out")
	}
	later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	leads.Store(true)
	eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
	must(t, c.Close()) // and so is the map
	if holders(t, other, p) != 1 || len(ids) < 2 || bare != 1 {
		t.Errorf("the release was asked under %d ids, and %d times by its path; %d hold %s, "+
			"and the later lock is sure for %v more", len(ids), bare, holders(t, other, p), p,
			time.Until(later.Deadline()).Round(time.Second))
	}
	must(t, later.Err())
}

// TestAReleaseThatComesAfterItsLease: Unlock of a read of an owner that the program names gives up as there is no way
// to the server. When there is one again the lease has ended and another client of the owner has the path: that lock
// stays.
func TestAReleaseThatComesAfterItsLease(t *testing.T) {
	for name, kind := range map[string]wire.Algorithm{"a read": wire.RecursiveRW, "a permit": wire.Semaphore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			way := new(line)
			c := dial(t, server(t), WithGrace(time.Hour), WithOneConnection(), WithDialer(way.dial))
			mate, other := dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
			p, me := path(t, "/a/p"), t.Name()
			must(t, other.SetNamespacePolicy(ctx, path(t, "/a"), kind, ""))
			try := func(c *Client, ttl time.Duration) (*Lock, error) {
				if kind == wire.Semaphore {
					return c.TrySemaphore(ctx, p, 1, Owner(me), TTL(ttl))
				}
				return c.TryRLock(ctx, p, Owner(me), TTL(ttl))
			}
			mine, err := try(c, time.Second)
			mustLock(t, mine, err)
			way.cut(errUnreachable)
			must(t, mine.Err())
			gaveUp(t, mine)
			eventually(t, "the end of the lease", func() bool { return holders(t, other, p) == 0 })
			later, err := try(mate, time.Hour)
			mustLock(t, later, err)
			way.mend()
			must(t, c.Ping(ctx))
			eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
			if holders(t, other, p) != 1 {
				t.Errorf("%s was given back, and the later lock is sure for %v more", p,
					time.Until(later.Deadline()).Round(time.Second))
			}
			must(t, later.Err())
		})
	}
}

// TestAReleaseThatIsTakenTooLate: a server does not take the release of a read until its lease has ended and another
// client of the owner has the path: that lock stays. On a busy machine the client may have given up by then: so it is
// tried until the server has taken one.
func TestAReleaseThatIsTakenTooLate(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	other := dial(t, server(t))
	for try := 0; ; try++ {
		var carried atomic.Int32
		var leads atomic.Bool
		addr := stage(t, func(c *wire.Call) bool {
			if leads.Load() {
				carried.Add(1)
				return false
			}
			answers(c, wire.Unavailable)
			return true
		})
		c, mate := dial(t, addr, WithGrace(time.Hour), WithOneConnection()), dial(t, server(t), WithGrace(time.Hour))
		p, me := path(t, fmt.Sprintf("/a/p%d", try)), t.Name()
		mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Second))
		mustLock(t, mine, err)
		gaveUp(t, mine)
		eventually(t, "the end of the lease", func() bool { return holders(t, other, p) == 0 })
		later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
		mustLock(t, later, err)
		leads.Store(true)
		eventually(t, "that what gives back is over", func() bool { return c.gates.shut.Load() == 0 })
		if holders(t, other, p) != 1 {
			t.Fatalf("carried out %d times, %s was given back, and the later lock is sure for %v more",
				carried.Load(), p, time.Until(later.Deadline()).Round(time.Second))
		}
		must(t, later.Err())
		if carried.Load() > 0 {
			return
		}
		t.Logf("the client had given up before %s was taken anew", p)
	}
}

// TestAReleaseBetweenTwoSessions: a read is released, but nobody can tell what became of that. In the pause before it
// is asked again the client comes to a new session, which knows nothing of it: it is not asked again there, and the
// read that another client of the owner took since stays.
func TestAReleaseBetweenTwoSessions(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	const many = 9 // so that the pause is 256 ms at least
	var n atomic.Int32
	paused := make(chan struct{})
	c := newAway(t, func(c *wire.Call) bool {
		switch i := n.Add(1); {
		case i == 1:
			c.To = instead{c.To, wire.DeadlineExceeded}
			return false // carried out
		case i == many:
			close(paused)
		case i > many:
			return false
		}
		answers(c, wire.Unavailable)
		return true
	})
	mate, other := dial(t, server(t), WithGrace(time.Hour)), dial(t, server(t))
	p, me := path(t, "/a/p"), t.Name()
	mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)
	freed := make(chan error, 1)
	go func() { freed <- mine.UnlockContext(ctx) }()
	<-paused
	later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	was := c.home.session.named()
	c.held.Lock()
	c.cut()
	c.forgotten()
	c.held.Unlock()
	if err := <-freed; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("Unlock: %v", err)
	}
	if c.home.session.named() == was {
		t.Error("the session goes on")
	}
	c.settled(t)
	if holders(t, other, p) != 1 {
		t.Errorf("%s was given back, and the later lock is sure for %v more", p,
			time.Until(later.Deadline()).Round(time.Second))
	}
	must(t, later.Err())
}

// TestAReleaseIsGivenUp: a release that finds no connection for a minute is given up, so that its owner may acquire
// again, and is not sent any more.
func TestAReleaseIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithKeepAlive(time.Hour))
		l := lockWith(t, c, p, TTL(time.Hour))
		way.cut(errUnreachable)
		if err := l.Unlock(); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("Unlock: %v", err)
		}
		pass(givesUp - time.Second)
		if c.gates.shut.Load() == 0 {
			t.Error("it is given up at once")
		}
		pass(2 * time.Second)
		if c.gates.shut.Load() != 0 {
			t.Error("it is not given up")
		}
		way.mend()
		p = f.open()
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRelease {
				t.Errorf("given back: %+v", a.req)
			}
			return granted(a.req)
		})
		pass(time.Minute)
	})
}

// TestReadsOfAReleaseThatWasNeverSent: a lock that writes and reads is unlocked without a connection, or while the
// first of several parts of its release is under way, and its session is forgotten. What was not sent for certain is
// released all the same, reads too.
func TestReadsOfAReleaseThatWasNeverSent(t *testing.T) {
	for name, more := range map[string]int{"nothing was": 0, "the second part was not": wire.MaxPaths - 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			c, other := newAway(t), dial(t, server(t))
			me, paths := t.Name(), []Path{{Path: path(t, "/a/p")}}
			t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
			for i := range more {
				paths = append(paths, Path{Path: path(t, fmt.Sprintf("/a/p%d", i))})
			}
			paths = append(paths, Path{Path: path(t, "/a/q"), Mode: Read})
			mine, err := c.TryLockAll(ctx, paths, Owner(me), TTL(time.Hour))
			mustLock(t, mine, err)

			c.held.Lock()
			c.down.Store(true)
			if more == 0 {
				c.cut()
				c.held.Unlock()
				eventually(t, "that the client knows that it has no connection", func() bool { return !c.connected() })
				gaveUp(t, mine)
			} else {
				freed := make(chan error, 1)
				go func() { freed <- mine.UnlockContext(ctx) }()
				eventually(t, "the first part of the release",
					func() bool { return ownerOf(t, other, paths[0].Path) == "" })
				c.cut() // its answer is lost
				c.held.Unlock()
				defer func() { must(t, <-freed) }()
			}
			c.forgotten()
			must(t, c.Ping(ctx))
			eventually(t, "that nothing is held", func() bool {
				locks, _, err := other.ListOwnerLocks(ctx, me)
				must(t, err)
				return len(locks) == 0
			})
		})
	}
}

// TestPermitsWhereThereAreNone: Semaphore in a namespace whose algorithm is another one takes a write. Its Unlock
// leaves a later write of the owner on the path, as the client says that it does.
func TestPermitsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	p, q, me := path(t, "/a/p"), path(t, "/a/q"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	first, err := c.TrySemaphore(ctx, p, 1, Owner(me), TTL(time.Hour))
	mustLock(t, first, err)
	isWatched(t, c, first)
	later, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q}}, Owner(me), TTL(time.Hour))
	if mustLock(t, later, err); first.Token() == 0 || later.Token() <= first.Token() {
		t.Fatalf("tokens %d and %d", first.Token(), later.Token())
	}
	must(t, first.Unlock())
	if owner := ownerOf(t, other, p); (later.Err() == nil) != (owner == me) {
		t.Errorf("%s is held by %q, and the later lock: %v", p, owner, later.Err())
	}
}

// TestALockBesideALongerOne: what becomes of a lock is looked at within its own TTL, also if its owner has one of a
// longer TTL.
func TestALockBesideALongerOne(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, mate := dial(t, server(t)), dial(t, server(t))
	p, r, me := path(t, "/a/p"), path(t, "/a/r"), t.Name()
	const ttl = 2 * time.Second
	long, err := c.TryLock(ctx, r, Owner(me), TTL(time.Hour))
	mustLock(t, long, err)
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(ttl))
	mustLock(t, mine, err)
	isWatched(t, c, mine)
	theirs, err := mate.TryLock(ctx, p, Owner(me), TTL(ttl))
	mustLock(t, theirs, err)
	must(t, theirs.Unlock())
	// Within a minute, of an hour.
	eventually(t, "that the lock is known to be lost", func() bool { return mine.Err() != nil })
	must(t, long.Err())
}
