package pathlockd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// lostBy waits until a lock is lost, and answers why.
func lostBy(t testing.TB, l *Lock, cause error) *LostError {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		t.Fatal("not lost")
	}
	var lost *LostError
	if err := l.Err(); !errors.As(err, &lost) || !errors.Is(err, cause) || !IsLost(err) {
		t.Fatalf("lost: %v, want %v", err, cause)
	}
	return lost
}

func TestRenewalKeepsALock(t *testing.T) {
	t.Parallel()
	c := dial(t, server(t))
	const ttl = 5 * time.Second // a busy machine has two thirds of it to renew
	l, err := c.Lock(context.Background(), path(t, "/a/b"), TTL(ttl))
	mustLock(t, l, err)
	last := l.Deadline()
	for end := time.Now().Add(ttl + ttl/4); time.Now().Before(end); {
		eventually(t, "a renewal", func() bool { return l.Deadline().After(last) || l.Err() != nil })
		must(t, l.Err())
		last = l.Deadline()
		if left := time.Until(last); left > ttl {
			t.Fatalf("surely held for %v, which is more than the TTL", left)
		}
	}
	alive, err := c.IsOwnerAlive(context.Background(), l.Owner())
	must(t, err)
	if !alive {
		t.Fatal("the server knows no lease")
	}
	must(t, l.Unlock())
}

func TestManyLocksAreKept(t *testing.T) {
	t.Parallel()
	c := dial(t, server(t))
	const many, ttl = 2000, 10 * time.Second
	locks := make([]*Lock, many)
	for i := range locks {
		l, err := c.Lock(context.Background(), path(t, "/a/"+string(rune('a'+i%26))+"/"+c.newOwner()), TTL(ttl))
		locks[i] = mustLock(t, l, err)
	}
	oldest := time.Now().Add(ttl)
	eventually(t, "renewals of all", func() bool {
		return !slices.ContainsFunc(locks, func(l *Lock) bool { return l.Err() == nil && l.Deadline().Before(oldest) })
	})
	for _, l := range locks {
		must(t, l.Err())
	}
}

func TestKilledLockIsLost(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	l, err := a.Lock(ctx, p, TTL(time.Hour))
	mustLock(t, l, err)
	work := l.Context()
	subscribed(t, a, l)
	must(t, b.ForceRelease(ctx, l.Owner(), ""))
	lostBy(t, l, ErrKilled) // by its event: there is no renewal for long
	<-work.Done()
	if err := context.Cause(work); !errors.Is(err, ErrKilled) {
		t.Fatalf("cause: %v", err)
	}
	other, err := b.TryLock(ctx, p)
	mustLock(t, other, err)
	if err := l.Unlock(); !errors.Is(err, ErrKilled) {
		t.Fatalf("Unlock of a lost lock: %v", err)
	}
	must(t, other.Err())
	if i, err := b.InspectPath(ctx, p); err != nil || i.WriteOwner != other.Owner() {
		t.Fatalf("the successor's lock: %+v %v", i, err)
	}
}

// subscribed waits until the client hears of what happens to a lock of a long TTL, and, if that takes a
// subscription, has asked once more whether it is held: what happens from now on it hears first by
// its event.
func subscribed(t testing.TB, c *Client, l *Lock) {
	t.Helper()
	eventually(t, "the subscription of a lock", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		le := l.lease
		if le != nil && !le.shared && !le.unheard() {
			return true
		}
		return le != nil && le.sub != nil && !le.asking && le.sure > le.granted+le.ttl-margin(le.ttl)
	})
}

// deaf answers a client that hears of no events: on a busy machine those would be as
// likely to come first as a renewal.
func deaf(t testing.TB) *Client {
	t.Helper()
	c := untold(t)
	c.keeper.watch(0)
	return c
}

// untold answers a client that takes no word of its leases which it has not subscribed to.
func untold(t testing.TB) *Client {
	t.Helper()
	c := dial(t, server(t))
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	c.home.tie.tells = false
	return c
}

func TestKilledLockIsLostAtItsRenewal(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c := deaf(t)
	l, err := c.Lock(ctx, path(t, "/a/b"), TTL(6*time.Second))
	mustLock(t, l, err)
	must(t, dial(t, server(t)).ForceRelease(ctx, l.Owner(), ""))
	lost := lostBy(t, l, ErrExpired)
	if lost.Reason != wire.ReasonMissingAlive {
		t.Fatalf("reason %v", lost.Reason)
	}
}

// TestKilledOwnerThatTakesAnotherLock: that a renewal is OK for what an owner took since says
// nothing of what was taken away from it before; and what it has since, it keeps.
func TestKilledOwnerThatTakesAnotherLock(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	a, b := deaf(t), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	owner := Owner(t.Name())
	first, err := a.Lock(ctx, p, owner, TTL(6*time.Second))
	mustLock(t, first, err)
	must(t, b.ForceRelease(ctx, t.Name(), ""))
	second, err := a.Lock(ctx, q, owner, TTL(6*time.Second))
	mustLock(t, second, err)
	third, err := a.RLock(ctx, path(t, "/a/r"), owner)
	mustLock(t, third, err)
	other, err := b.TryLock(ctx, p)
	mustLock(t, other, err)
	lostBy(t, first, ErrExpired)
	must(t, second.Err())
	must(t, third.Err())
	must(t, other.Err())
}

func TestPolicyChangeLosesLocks(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c := deaf(t)
	l, err := c.Lock(ctx, path(t, "/a/b"), TTL(6*time.Second))
	mustLock(t, l, err)
	must(t, c.SetNamespacePolicy(ctx, path(t, "/a"), wire.PointWrite, ""))
	lostBy(t, l, ErrExpired)
}

// TestEndOfAWaitLosesNoLock: a namespace that is set on a subtree ends the waits for paths in it, and
// tells their owners. What these hold elsewhere they hold on.
func TestEndOfAWaitLosesNoLock(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, stranger := dial(t, server(t)), dial(t, server(t))
	x, z, deep, me := path(t, "/a/x"), path(t, "/a/z"), path(t, "/a/b/c"), Owner(t.Name())
	mine, err := c.Lock(ctx, x, me, TTL(time.Hour))
	mustLock(t, mine, err)
	theirs, err := stranger.Lock(ctx, z)
	mustLock(t, theirs, err)
	told, err := stranger.Subscribe(ctx, t.Name())
	must(t, err)
	queued, waited := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.LockAll(ctx, []Path{{Path: z}, {Path: deep}}, me, OnQueued(func(Queued) { close(queued) }))
		waited <- err
	}()
	<-queued
	subscribed(t, c, mine)
	time.Sleep(watchAfter) // what is told sooner after it was taken is looked into anyway
	must(t, stranger.SetNamespacePolicy(ctx, path(t, "/a/b"), wire.PointWrite, ""))
	if err := <-waited; !errors.Is(err, ErrAborted) {
		t.Fatalf("the wait: %v", err)
	}
	if e := <-told.Events(); e.Kind != wire.EventKilled || e.Path != deep {
		t.Errorf("told %+v, want KILLED of %s", e, deep)
	}
	more, err := c.Lock(ctx, path(t, "/a/y"), me) // what the client was told it has heard by then
	mustLock(t, more, err)
	must(t, mine.Err())
	if seen, err := stranger.InspectPath(ctx, x); err != nil || seen.WriteOwner != t.Name() {
		t.Errorf("held by %+v, %v", seen, err)
	}
	must(t, more.Unlock())
	must(t, mine.Unlock())
}

func TestRevokeIsTold(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	told := make(chan *Lock, 2)
	byEvent, err := a.Lock(ctx, path(t, "/a/b"), TTL(time.Hour), OnRevoke(func(l *Lock) { told <- l }))
	mustLock(t, byEvent, err)
	byRenewal, err := a.Lock(ctx, path(t, "/a/c"), TTL(6*time.Second), OnRevoke(func(l *Lock) { told <- l }))
	mustLock(t, byRenewal, err)
	must(t, b.RequestRevoke(ctx, byRenewal.Owner()))
	<-byRenewal.Revoked()
	if <-told != byRenewal {
		t.Fatal("the wrong lock was told")
	}
	subscribed(t, a, byEvent)
	must(t, b.RequestRevoke(ctx, byEvent.Owner()))
	<-byEvent.Revoked()
	if <-told != byEvent {
		t.Fatal("the wrong lock was told")
	}
	must(t, byEvent.Err()) // to be asked is no loss
	must(t, byRenewal.Err())
	must(t, byEvent.Unlock())
	must(t, byRenewal.Unlock())
}
