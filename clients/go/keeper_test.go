package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The keeper by the clock of a bubble: the TTL is 30 s and the margin 1 s unless a
// test says otherwise.

// sureFor is how long a lease of DefaultTTL is sure.
const sureFor = DefaultTTL - maxMargin - DefaultTTL/driftShare

// held takes a lock from a fake server that grants everything but what f answers.
func held(t testing.TB, c *Client, p *peer, f func(a *asked) (res *wire.Result, mine bool), opts ...LockOption) *Lock {
	t.Helper()
	go p.serve(func(a *asked) *wire.Result {
		if res, mine := f(a); mine {
			return res
		}
		return granted(a.req)
	})
	l, err := c.Lock(context.Background(), "a:/b/c", opts...)
	return mustLock(t, l, err)
}

// lostAt fails unless the lock is held until a time and lost at it.
func lostAt(t testing.TB, l *Lock, at time.Time, cause error) {
	t.Helper()
	if early := time.Until(at) - time.Millisecond; early > 0 {
		pass(early)
		if err := l.Err(); err != nil {
			t.Fatalf("lost %v early: %v", time.Until(at), err)
		}
	}
	pass(time.Until(at) + time.Millisecond)
	select {
	case <-l.Lost():
	default:
		t.Fatalf("not lost %v after its time", time.Since(at))
	}
	if err := l.Err(); !errors.Is(err, cause) || !IsLost(err) {
		t.Fatalf("lost: %v, want %v", err, cause)
	}
	if !l.Deadline().IsZero() {
		t.Fatal("a lost lock has a deadline")
	}
}

func TestRenewsAtAThird(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		last, renewals := time.Now(), 0
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op == wire.OpRenew {
				renewals++
				// One comes a second after the grant: the lock is watched from then on.
				if d := a.at.Sub(last); d > 10*time.Second || d < 9*time.Second && renewals != 1 && renewals != 2 {
					t.Errorf("renewal %d came after %v", renewals, d)
				}
				if r := a.req; r.TTLMillis != 30_000 || r.Flags != keepFlags || len(r.Domains) != 1 ||
					r.Domains[0] != "a:/b" {
					t.Errorf("renewal: %+v", r)
				}
				last = a.at
			}
			return nil, false
		})
		pass(10 * time.Minute)
		must(t, l.Err())
		if renewals < 60 || renewals > 68 {
			t.Fatalf("%d renewals in 10 min", renewals)
		}
		if d := l.Deadline().Sub(last); d != sureFor {
			t.Fatalf("sure for %v after the last renewal was sent, want %v", d, sureFor)
		}
	})
}

func TestUnansweredRenewalsLoseTheLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		began := time.Now()
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) { return nil, a.req.Op == wire.OpRenew })
		work := l.Context()
		lostAt(t, l, began.Add(sureFor), ErrUncertain)
		if err := context.Cause(work); !errors.Is(err, ErrUncertain) {
			t.Fatalf("cause: %v", err)
		}
	})
}

func TestErrLooksAtTheClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) { return nil, a.req.Op == wire.OpRenew })
		c.end() // and with it the keeper, as if it did not get to run
		pass(time.Until(l.Deadline()) - time.Millisecond)
		must(t, l.Err())
		pass(time.Millisecond)
		if err := l.Err(); !errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
	})
}

func TestFailedRenewalIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		tries := 0
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op != wire.OpRenew || tries >= 5 {
				return nil, false
			}
			tries++
			return &wire.Result{Code: wire.Unavailable, Message: "not now"}, true
		})
		pass(sureFor)
		must(t, l.Err())
		if tries < 5 {
			t.Fatalf("%d failures, want 5", tries)
		}
	})
}

func TestUncertainLockNamesTheLastFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		began := time.Now()
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			return &wire.Result{Code: wire.Unavailable, Message: "no leader"}, a.req.Op == wire.OpRenew
		})
		lostAt(t, l, began.Add(sureFor), ErrUncertain)
		var lost *LostError
		if !errors.As(l.Err(), &lost) || !IsUnavailable(lost.Last) || lost.Path != "a:/b/c" {
			t.Fatalf("got %+v", lost)
		}
	})
}

func TestRenewalsGoAheadInAFullWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithWindow(8))
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) { return nil, a.req.Op == wire.OpHealth })
		for range 100 { // never answered: they fill the window
			c.Go(&wire.Request{Op: wire.OpHealth}, nil)
		}
		pass(10 * DefaultTTL)
		must(t, l.Err())
	})
}

func TestRenewalsGoAheadOfTheBacklog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithWindow(1), WithKeepAlive(time.Hour))
		l := lockWith(t, c, p)
		for range 3 {
			c.Go(&wire.Request{Op: wire.OpHealth}, nil)
		}
		first := p.want(wire.OpHealth)
		pass(20 * time.Second) // a renewal is due
		p.ok(first)
		for {
			next := p.next()
			if next.req.Op == wire.OpHealth {
				t.Fatal("the backlog went ahead of a renewal")
			}
			p.ok(next)
			if next.req.Op == wire.OpRenew {
				break
			}
		}
		pass(0)
		must(t, l.Err())
	})
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
