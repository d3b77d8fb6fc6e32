package pathlockd

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// A real server, whose connections break and which goes away and comes back.

func TestLocksSurviveABrokenConnection(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	way := new(line)
	const grace = 4 * time.Second // a busy machine has it to connect again
	a, b := dial(t, server(t), WithDialer(way.dial), WithGrace(grace)), dial(t, server(t))
	p := path(t, "/a/b")
	l, err := a.Lock(ctx, p)
	mustLock(t, l, err)
	for range 3 {
		before := l.Deadline()
		way.cut(nil)
		eventually(t, "a renewal on the next connection", func() bool { return l.Deadline().After(before) })
		must(t, l.Err())
	}
	// Longer than the grace of the first connection, whose end is no concern any more.
	<-time.After(grace + grace/4)
	must(t, l.Err())
	i, err := b.InspectPath(ctx, p)
	must(t, err)
	if i.WriteOwner != l.Owner() {
		t.Fatalf("held by %q, want %q", i.WriteOwner, l.Owner())
	}
	must(t, l.Unlock())
}

func TestLocksOfAClientThatIsGoneAreFreed(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	way := new(line)
	const grace = 300 * time.Millisecond
	a, b := dial(t, server(t), WithDialer(way.dial), WithGrace(grace)), dial(t, server(t))
	p := path(t, "/a/b")
	l, err := a.Lock(ctx, p, TTL(time.Hour))
	mustLock(t, l, err)
	began := time.Now()
	way.cut(errUnreachable)
	next, err := b.Lock(ctx, p)
	mustLock(t, next, err)
	if d := time.Since(began); d < grace-10*time.Millisecond { // of the TTL there is an hour
		t.Fatalf("freed after %v, want %v", d, grace)
	}
	// The first knew before the second got it.
	if err := l.Err(); !errors.Is(err, ErrUncertain) {
		t.Fatalf("the first holder: %v", err)
	}
	if next.Token() <= l.Token() {
		t.Fatalf("token %d after %d", next.Token(), l.Token())
	}
}

func TestWaitersKeepTheirPlacesOverBrokenConnections(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	way := new(line)
	a, b := dial(t, server(t), WithDialer(way.dial)), dial(t, server(t))
	p := path(t, "/a/b")
	held, err := b.Lock(ctx, p)
	mustLock(t, held, err)
	order := make(chan string, 2)
	var done sync.WaitGroup
	queue := func(c *Client, name string, place uint64) {
		done.Go(func() {
			l, err := c.Lock(ctx, p)
			if err != nil {
				t.Error(err)
				return
			}
			order <- name
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
		waiters(t, b, p, place)
	}
	queue(a, "first", 1)
	queue(b, "second", 2)
	for range 2 {
		before := a.connections.Load()
		way.cut(nil)
		eventually(t, "the next connection", func() bool {
			return a.connections.Load() > before &&
				a.home.linkError() == nil
		})
		must(t, a.Ping(ctx))
	}
	must(t, held.Unlock())
	for _, want := range []string{"first", "second"} {
		if got := <-order; got != want {
			t.Fatalf("the %s came before the %s", got, want)
		}
	}
	done.Wait()
}

func TestRequestsAreCarriedOutOnceOverBrokenConnections(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	way := new(line)
	c := dial(t, server(t), WithDialer(way.dial))
	first, err := c.IncrFencingToken(ctx, "")
	must(t, err)
	const many = 300
	results := make(chan int64, many)
	for i := range many {
		go func() {
			n, err := c.IncrFencingToken(ctx, "")
			if err != nil {
				t.Error(err)
			}
			results <- n
		}()
		if i%30 == 0 {
			way.cut(nil)
		}
	}
	seen := make(map[int64]bool, many)
	for range many {
		seen[<-results] = true
	}
	last, err := c.IncrFencingToken(ctx, "")
	must(t, err)
	if len(seen) != many || last != first+many+1 {
		t.Fatalf("%d numbers up to %d, want %d up to %d", len(seen), last, many, first+many+1)
	}
}

func TestLocksSurviveARestart(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]time.Duration{"killed": 0, "drained": time.Second} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, patience)
			n := newNode(t)
			// That nobody listens any more may be found out too late to excuse the server
			// (excuseWithin); then it is back within the grace.
			c := dial(t, n.addr, WithGrace(patience))
			p := "a:/b/c"
			l, err := c.Lock(ctx, p)
			mustLock(t, l, err)
			waited := make(chan *Lock, 1)
			queued := make(chan struct{}, 9)
			go func() {
				l, err := c.Lock(ctx, p, OnQueued(func(Queued) { queued <- struct{}{} }))
				if err != nil {
					t.Error(err)
				}
				waited <- l
			}()
			<-queued
			n.stop(drain)
			if err := c.home.linkError(); err == nil {
				eventually(t, "the end of the connection", func() bool { return c.home.linkError() != nil })
			}
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if err := c.Ping(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a ping of nobody: %v", err)
			}
			n.start(t)
			before := l.Deadline()
			eventually(t, "a renewal after the restart", func() bool {
				return l.Deadline().After(before) ||
					l.Err() != nil
			})
			must(t, l.Err())
			must(t, l.Unlock())
			next := <-waited
			if next == nil || next.Token() <= l.Token() {
				t.Fatalf("the waiter got %+v", next)
			}
			must(t, next.Unlock())
		})
	}
}

func TestUnixSocket(t *testing.T) {
	server(t)
	file := filepath.Join(t.TempDir(), "s")
	_, err := shared.n.srv.Listen("unix", file)
	must(t, err)
	ctx := within(t, patience)
	c := dial(t, "unix:"+file)
	l, err := c.Lock(ctx, path(t, "/a/b"))
	mustLock(t, l, err)
	must(t, l.Unlock())
	if i := c.ServerInfo(); i.Address != "unix:"+file || i.NodeID == "" || i.ClusterID == "" {
		t.Fatalf("server %+v", i)
	}
}

func TestBoundOwner(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	way := new(line)
	a, b := dial(t, server(t), WithDialer(way.dial)), dial(t, server(t))
	owner, p := t.Name(), path(t, "/a/b")
	alive, err := a.Bind(ctx, owner, 300*time.Millisecond, 0)
	must(t, err)
	if alive {
		t.Fatal("alive before it holds anything")
	}
	take := func() {
		res, err := a.Acquire(ctx, &wire.Request{Owner: owner, TTLMillis: 3_600_000,
			Locks: []wire.LockRequest{{Path: p}}})
		must(t, err)
		if res.Status != wire.StatusOK || res.Token == 0 {
			t.Fatalf("acquire: %+v", res)
		}
	}
	take()
	way.cut(errUnreachable)
	gone := func() bool {
		alive, err := b.IsOwnerAlive(ctx, owner)
		must(t, err)
		return !alive
	}
	eventually(t, "the end of a bound lease", gone)
	way.mend()
	must(t, a.Unbind(ctx, owner))
	take()
	before := a.connections.Load()
	way.cut(nil)
	eventually(t, "the next connection", func() bool { return a.connections.Load() > before })
	must(t, a.Ping(ctx))
	<-time.After(600 * time.Millisecond) // twice what its grace was
	if gone() {
		t.Fatal("an owner that is not bound any more lost its lease")
	}
}
