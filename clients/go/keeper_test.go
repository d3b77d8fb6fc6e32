package pathlockd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// lostBy waits until a lock is lost.
func lostBy(t testing.TB, l *Lock, d time.Duration, cause error) *LostError {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(d):
		t.Fatalf("not lost within %v", d)
	}
	var lost *LostError
	if err := l.Err(); !errors.As(err, &lost) || !errors.Is(err, cause) || !IsLost(err) {
		t.Fatalf("lost: %v, want %v", err, cause)
	}
	return lost
}

func TestRenewalKeepsALock(t *testing.T) {
	c := dial(t, server(t))
	const ttl = 300 * time.Millisecond
	l, err := c.Lock(context.Background(), path(t, "/a/b"), TTL(ttl))
	mustLock(t, l, err)
	last := l.Deadline()
	for end := time.Now().Add(10 * ttl); time.Now().Before(end); {
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
	c := dial(t, server(t))
	const many, ttl = 2000, 2 * time.Second
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
	ctx := within(t, 10*time.Second)
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	l, err := a.Lock(ctx, p, TTL(time.Hour))
	mustLock(t, l, err)
	work := l.Context()
	subscribed(t, a, l)
	must(t, b.ForceRelease(ctx, l.Owner(), ""))
	lostBy(t, l, 5*time.Second, ErrKilled) // by its event: there is no renewal for long
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

// subscribed waits until the client hears of what happens to a lock.
func subscribed(t testing.TB, c *Client, l *Lock) {
	t.Helper()
	eventually(t, "the subscription of a lock", func() bool {
		c.subs.mu.Lock()
		defer c.subs.mu.Unlock()
		for _, s := range c.subs.mu.known {
			if s.owner == l.Owner() {
				return true
			}
		}
		return false
	})
}

func TestKilledLockIsLostAtItsRenewal(t *testing.T) {
	ctx := within(t, 10*time.Second)
	c := dial(t, server(t))
	l, err := c.Lock(ctx, path(t, "/a/b"), TTL(500*time.Millisecond))
	mustLock(t, l, err)
	must(t, c.ForceRelease(ctx, l.Owner(), ""))
	lost := lostBy(t, l, 5*time.Second, ErrExpired)
	if lost.Reason != wire.ReasonMissingAlive {
		t.Fatalf("reason %v", lost.Reason)
	}
}

func TestPolicyChangeLosesLocks(t *testing.T) {
	ctx := within(t, 10*time.Second)
	c := dial(t, server(t))
	l, err := c.Lock(ctx, path(t, "/a/b"), TTL(500*time.Millisecond))
	mustLock(t, l, err)
	must(t, c.SetNamespacePolicy(ctx, path(t, "/a"), wire.PointWrite, ""))
	lostBy(t, l, 5*time.Second, ErrExpired)
}

func TestRevokeIsTold(t *testing.T) {
	ctx := within(t, 10*time.Second)
	a, b := dial(t, server(t)), dial(t, server(t))
	told := make(chan *Lock, 2)
	byEvent, err := a.Lock(ctx, path(t, "/a/b"), TTL(time.Hour), OnRevoke(func(l *Lock) { told <- l }))
	mustLock(t, byEvent, err)
	byRenewal, err := a.Lock(ctx, path(t, "/a/c"), TTL(300*time.Millisecond), OnRevoke(func(l *Lock) { told <- l }))
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

func TestSilentServerLosesTheLock(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	const ttl = time.Second
	got := make(chan time.Time, 1)
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op != wire.OpAcquire {
			return nil // silence
		}
		got <- a.at
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	work := l.Context()
	lostBy(t, l, 5*time.Second, ErrUncertain)
	if over := time.Since((<-got).Add(ttl)); over >= 0 {
		t.Fatalf("told %v after the lease was over", over)
	}
	if err := context.Cause(work); !errors.Is(err, ErrUncertain) {
		t.Fatalf("cause: %v", err)
	}
}

func TestLeaseIsMeasuredFromTheFirstSend(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	const ttl = 900 * time.Millisecond
	// The answer takes 200 ms, of which the lease is shorter: less than a third.
	got := make(chan time.Time, 1)
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op != wire.OpAcquire {
			return nil
		}
		got <- a.at
		<-time.After(200 * time.Millisecond)
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	if end := (<-got).Add(ttl); !l.Deadline().Before(end) {
		t.Fatalf("surely held until %v after the lease's end", l.Deadline().Sub(end))
	}
}

func TestSlowAcquireIsConfirmed(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	const ttl = time.Second
	renewed := make(chan time.Time, 10)
	go p.serve(func(a *asked) *wire.Result {
		switch a.req.Op {
		case wire.OpAcquire:
			<-time.After(ttl / 2) // as long as a wait in the queue may take
		case wire.OpRenew:
			if len(a.req.Domains) != 1 || a.req.Domains[0] != "a:/b" || a.req.Flags != wire.FlagBind {
				t.Errorf("renewal %+v", a.req)
			}
			renewed <- a.at
		}
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	select {
	case at := <-renewed: // before the lock was handed out
		if !l.Deadline().Before(at.Add(ttl)) || l.Deadline().Before(at.Add(ttl/2)) {
			t.Fatalf("surely held until %v after the renewal came", l.Deadline().Sub(at))
		}
	default:
		t.Fatal("the lock was handed out unconfirmed")
	}
}

func TestLostBetweenGrantAndConfirmationIsAskedAgain(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	const ttl = 600 * time.Millisecond
	acquires, renewals := 0, 0
	go p.serve(func(a *asked) *wire.Result {
		switch a.req.Op {
		case wire.OpAcquire:
			if acquires++; acquires == 1 {
				<-time.After(ttl / 2)
			}
		case wire.OpRenew:
			if renewals++; renewals == 1 {
				return &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}
			}
		}
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	must(t, l.Unlock())
	c.Close()
	if acquires != 2 {
		t.Fatalf("%d acquires, want 2", acquires)
	}
}

func TestFailedRenewalIsTriedAgain(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	const ttl = 900 * time.Millisecond
	tries := make(chan struct{}, 100)
	failing := true
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op == wire.OpRenew && failing {
			tries <- struct{}{}
			failing = len(tries) < 4
			return &wire.Result{Code: wire.Unavailable, Message: "not now"}
		}
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	first := l.Deadline()
	eventually(t, "a renewal that works", func() bool { return l.Deadline().After(first) })
	must(t, l.Err())
	if len(tries) < 4 {
		t.Fatalf("%d failures before", len(tries))
	}
}

func TestErrLooksAtTheClock(t *testing.T) {
	f := newFake(t)
	c, p := f.client()
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op == wire.OpAcquire {
			return granted(a.req)
		}
		return nil
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(100*time.Millisecond))
	mustLock(t, l, err)
	// Whoever asks in a loop finds out at the deadline, whether the keeper ran or not.
	end := l.Deadline()
	for l.Err() == nil {
		if late := time.Since(end); late > time.Second {
			t.Fatalf("still held %v after its deadline", late)
		}
	}
	if !errors.Is(l.Err(), ErrUncertain) {
		t.Fatal(l.Err())
	}
}

func TestRenewalsGoAheadInAFullWindow(t *testing.T) {
	f := newFake(t)
	c, p := f.client(WithWindow(8))
	const ttl = 600 * time.Millisecond
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op == wire.OpHealth {
			return nil // fills the window for ever
		}
		return granted(a.req)
	})
	l, err := c.Lock(within(t, 10*time.Second), "a:/b/c", TTL(ttl))
	mustLock(t, l, err)
	for range 100 {
		c.Go(&wire.Request{Op: wire.OpHealth}, nil)
	}
	end := time.Now().Add(3 * ttl)
	eventually(t, "renewals in a full window", func() bool { return l.Err() != nil || l.Deadline().After(end) })
	must(t, l.Err())
}

func TestRenewalsGoAheadOfTheBacklog(t *testing.T) {
	f := newFake(t)
	c, p := f.client(WithWindow(1))
	const ttl = 300 * time.Millisecond
	l := lockWith(t, c, p, TTL(ttl))
	for range 3 {
		c.Go(&wire.Request{Op: wire.OpHealth}, nil)
	}
	first := p.want(wire.OpHealth)
	eventually(t, "a renewal that waits to be sent", func() bool {
		c.session.mu.Lock()
		defer c.session.mu.Unlock()
		return c.session.mu.urgent.first != nil
	})
	p.ok(first)
	p.ok(p.want(wire.OpRenew)) // before the other two
	must(t, l.Err())
}

// lockWith takes a lock from a fake server.
func lockWith(t testing.TB, c *Client, p *peer, opts ...LockOption) *Lock {
	t.Helper()
	got := make(chan *Lock, 1)
	go func() {
		l, err := c.Lock(context.Background(), "a:/b/c", opts...)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	p.ok(p.want(wire.OpAcquire))
	return <-got
}

func TestLeaseHeap(t *testing.T) {
	var h leaseHeap
	var all []*lease
	check := func() {
		t.Helper()
		for i, l := range h {
			if l.place != i || i > 0 && h[(i-1)/2].at > l.at {
				t.Fatalf("out of order at %d", i)
			}
		}
	}
	for range 2000 {
		switch n := rand.N(10); {
		case n < 5 || len(all) == 0:
			l := &lease{at: time.Duration(rand.N(1000))}
			h.push(l)
			all = append(all, l)
		case n < 8:
			l := all[rand.N(len(all))]
			l.at = time.Duration(rand.N(1000))
			h.moved(l)
		default:
			i := rand.N(len(all))
			h.remove(all[i])
			all = slices.Delete(all, i, i+1)
		}
		check()
	}
	for _, l := range all {
		l.at = time.Duration(rand.N(1000))
	}
	h.init()
	check()
	if len(h) != len(all) {
		t.Fatalf("%d leases, want %d", len(h), len(all))
	}
}
