package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// mustLock takes a lock, which must come.
func mustLock(t testing.TB, l *Lock, err error) *Lock {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// must fails on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waiters waits until so many requests are queued for a path.
func waiters(t testing.TB, c *Client, p string, want uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d waiters", want), func() bool {
		d, err := c.Describe(context.Background(), p, 0)
		must(t, err)
		return d.WaitersTotal == want
	})
}

func TestLockExcludes(t *testing.T) {
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	var inside, most, turns atomic.Int32
	var wait sync.WaitGroup
	for i := range 8 { // four goroutines of each client
		c := a
		if i%2 == 1 {
			c = b
		}
		wait.Go(func() {
			for range 10 {
				l, err := c.Lock(ctx, p)
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				turns.Add(1)
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if most.Load() != 1 || turns.Load() != 80 {
		t.Fatalf("%d held it at once in %d turns, want 1 in 80", most.Load(), turns.Load())
	}
}

func TestLockTokensGrow(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	last := int64(0)
	for range 5 {
		l, err := c.Lock(ctx, path(t, "/a/b"))
		mustLock(t, l, err)
		if l.Token() <= last {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		must(t, l.Unlock())
	}
}

func TestLockQueueIsInOrder(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p := path(t, "/a/b")
	held, err := c.Lock(ctx, p)
	mustLock(t, held, err)
	order := make(chan int, 5)
	places := make(chan Queued, 5)
	for i := range 5 {
		go func() {
			l, err := c.Lock(ctx, p, OnQueued(func(q Queued) { places <- q }))
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			l.Unlock()
		}()
		q := <-places
		if q.Position != uint64(i+1) || q.Path != p ||
			i == 0 && (q.Owner != held.Owner() || q.Reason != wire.ReasonWriteLocked) {
			t.Errorf("waiter %d was told %+v", i, q)
		}
	}
	must(t, held.Unlock())
	for i := range 5 {
		if got := <-order; got != i {
			t.Fatalf("turn %d was waiter %d's", i, got)
		}
	}
}

func TestTryLockTellsWhy(t *testing.T) {
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	top, below := path(t, "/a/b"), path(t, "/a/b/c")
	held, err := a.Lock(ctx, top)
	mustLock(t, held, err)
	_, err = b.TryLock(ctx, below)
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !IsConflict(err) {
		t.Fatalf("got %v, want a ConflictError", err)
	}
	if conflict.Path != top || conflict.Owner != held.Owner() || conflict.Reason != wire.ReasonAncestorLocked {
		t.Fatalf("got %+v", conflict)
	}
	must(t, held.Unlock())
	l, err := b.TryLock(ctx, below)
	mustLock(t, l, err)
	must(t, l.Unlock())
}

func TestReadersShare(t *testing.T) {
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	r1, err := a.RLock(ctx, p)
	mustLock(t, r1, err)
	r2, err := b.TryRLock(ctx, p)
	mustLock(t, r2, err)
	if _, err := b.TryLock(ctx, p); !IsConflict(err) {
		t.Fatalf("a writer among readers: %v", err)
	}
	must(t, r1.Unlock())
	must(t, r2.Unlock())
	w, err := b.TryLock(ctx, p)
	mustLock(t, w, err)
	if _, err := a.TryRLock(ctx, p); !IsConflict(err) {
		t.Fatalf("a reader under a writer: %v", err)
	}
}

func TestSemaphore(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p := path(t, "/pool/gpu")
	must(t, c.SetNamespacePolicy(ctx, path(t, "/pool"), wire.Semaphore, ""))
	one, err := c.Semaphore(ctx, p, 2)
	mustLock(t, one, err)
	two, err := c.Semaphore(ctx, p, 2)
	mustLock(t, two, err)
	var conflict *ConflictError
	if _, err := c.TrySemaphore(ctx, p, 2); !errors.As(err, &conflict) || conflict.Reason != wire.ReasonSemaphoreFull {
		t.Fatalf("a third permit of two: %v", err)
	}
	if _, err := c.TrySemaphore(ctx, p, 3); !errors.As(err, &conflict) ||
		conflict.Reason != wire.ReasonInvalidPermits || conflict.Owner != "2" {
		t.Fatalf("another number of permits: %v", err)
	}
	must(t, one.Unlock())
	three, err := c.Semaphore(ctx, p, 2)
	mustLock(t, three, err)
}

func TestLockAll(t *testing.T) {
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	x, y, z := path(t, "/a/x"), path(t, "/a/y"), path(t, "/a/z")
	held, err := a.LockAll(ctx, []Path{{Path: x}, {Path: y, Mode: Read}})
	mustLock(t, held, err)
	if _, err := b.TryLockAll(ctx, []Path{{Path: z}, {Path: x, Mode: Read}}); !IsConflict(err) {
		t.Fatalf("all or none: %v", err)
	}
	l, err := b.TryLock(ctx, z) // nothing of the failed one is left
	mustLock(t, l, err)
	r, err := b.TryRLock(ctx, y)
	mustLock(t, r, err)
	must(t, held.Unlock())
	l, err = b.TryLock(ctx, x)
	mustLock(t, l, err)
	if _, err := a.LockAll(ctx, []Path{{Path: x}, {Path: path(t, "/b/x")}}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("paths of two namespaces: %v", err)
	}
}

func TestLockAllInBulk(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	paths := make([]Path, 2500) // more than one release takes
	for i := range paths {
		paths[i] = Path{Path: path(t, fmt.Sprintf("/a/%d", i))}
	}
	l, err := c.LockAll(ctx, paths)
	mustLock(t, l, err)
	must(t, l.Unlock())
	for info, err := range c.ScanLocks(ctx, path(t, "/a")) {
		t.Fatalf("left over: %v %v", info, err)
	}
}

func TestOwnTokenMustNotBeStale(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p := path(t, "/a/b")
	l, err := c.Lock(ctx, p, Token(1_000_000))
	mustLock(t, l, err)
	if l.Token() != 1_000_000 {
		t.Fatalf("token %d", l.Token())
	}
	must(t, l.Unlock())
	var conflict *ConflictError
	if _, err := c.Lock(ctx, p, Token(999_999)); !errors.As(err, &conflict) ||
		conflict.Reason != wire.ReasonStaleFencingToken || conflict.CurrentToken != 1_000_000 {
		t.Fatalf("a stale token: %v", err)
	}
}

func TestSameOwnerIsOneLock(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t), WithGrace(longGrace))
	outer, err := c.Lock(ctx, path(t, "/a/b"), TTL(time.Minute))
	mustLock(t, outer, err)
	inner, err := c.Lock(ctx, path(t, "/a/b/c"), Owner(outer.Owner()), TTL(10*time.Second))
	mustLock(t, inner, err)
	first := inner.Deadline()
	eventually(t, "a renewal of the lease that they share", func() bool { return inner.Deadline().After(first) })
	if d := time.Until(inner.Deadline()); d > inner.TTL() {
		t.Errorf("the inner lock is sure for %v, longer than its own TTL", d)
	}
	if d := time.Until(outer.Deadline()); d < 30*time.Second {
		t.Errorf("the outer lock is sure for %v", d)
	}
	must(t, inner.Unlock())
	must(t, outer.Err())
	must(t, outer.Unlock())
}

func TestMetadataIsSeen(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t), WithCommand("reindex --all"), WithLabels(map[string]string{"team": "search"}))
	l, err := c.Lock(ctx, path(t, "/a/b"), Labels(map[string]string{"job": "42"}))
	mustLock(t, l, err)
	d, err := c.Describe(ctx, path(t, "/a/b"), 0)
	must(t, err)
	m, err := DecodeMetadata(d.Holders[0].Meta)
	must(t, err)
	if m.Command != "reindex --all" || m.Labels["team"] != "search" || m.Labels["job"] != "42" || m.PID == 0 {
		t.Fatalf("holder: %+v", m)
	}
}
