package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func TestUnlock(t *testing.T) {
	c := dial(t, server(t))
	p := path(t, "/a/b")
	ctx, cancel := context.WithCancel(within(t, patience))
	l, err := c.Lock(ctx, p)
	mustLock(t, l, err)
	work := l.Context()
	cancel()
	must(t, l.Err()) // the waiting is over; the lock stays
	must(t, l.Unlock())
	must(t, l.Unlock()) // again is the same
	if err := l.Err(); !errors.Is(err, ErrUnlocked) || IsLost(err) {
		t.Fatalf("Err after Unlock: %v", err)
	}
	<-work.Done()
	if err := context.Cause(work); !errors.Is(err, ErrUnlocked) {
		t.Fatalf("cause after Unlock: %v", err)
	}
	select {
	case <-l.Lost():
		t.Fatal("Unlock is no loss")
	default:
	}
	if !l.Deadline().IsZero() {
		t.Fatal("a deadline after Unlock")
	}

	l, err = c.Lock(context.Background(), p)
	mustLock(t, l, err)
	if err := l.UnlockContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again, err := c.Lock(within(t, patience), p) // it was sent all the same
	mustLock(t, again, err)
}

// TestUnlockGivesBackWhatIsLeft: a lock of two paths of which one is gone is lost. Unlock gives the
// other one back, which what else its owner holds would keep for good.
func TestUnlockGivesBackWhatIsLeft(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, stranger := dial(t, server(t)), dial(t, server(t))
	p, q, r, me := path(t, "/a/p"), path(t, "/a/q"), path(t, "/a/r"), Owner(t.Name())
	both, err := c.LockAll(ctx, []Path{{Path: p}, {Path: q}}, me)
	mustLock(t, both, err)
	must(t, stranger.Release(ctx, t.Name(), []wire.ReleaseRequest{{Path: p}}, false, ""))
	beside, err := c.Lock(ctx, r, me, TTL(time.Hour)) // the server is asked what the owner holds
	mustLock(t, beside, err)
	if lost := lostBy(t, both, ErrExpired); lost.Path != p {
		t.Errorf("lost is %v", lost)
	}
	if err := both.Unlock(); !errors.Is(err, ErrExpired) {
		t.Errorf("Unlock: %v", err)
	}
	l, err := stranger.Lock(ctx, q)
	mustLock(t, l, err)
	must(t, beside.Err())
	must(t, l.Unlock())
	must(t, beside.Unlock())
}

// TestUnlockOfALostLock gives back what the request took that took the lock, unless nothing can be held of that.
func TestUnlockOfALostLock(t *testing.T) {
	killed := wire.Event{Kind: wire.EventKilled, Namespace: "a:/b", At: wire.Position{Log: 2, Index: 11}}
	lost := &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}
	for name, one := range map[string]struct {
		cause    error
		renewal  *wire.Result
		event    []byte
		releases bool
	}{
		"there is no lease":  {ErrExpired, lost, nil, false},
		"it was taken away":  {ErrKilled, &wire.Result{}, wire.AppendEvent(nil, sub1(killed)), true},
		"nobody can tell it": {ErrUncertain, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				var took uint64
				released := make(chan *wire.Request, 9)
				l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
					switch a.req.Op {
					case wire.OpAcquire:
						took = a.id
					case wire.OpRelease:
						released <- a.req
					case wire.OpRenew:
						return one.renewal, true
					}
					return nil, false
				})
				pass(2 * watchAfter)
				p.send(one.event)
				pass(DefaultTTL)
				if err := l.Unlock(); !errors.Is(err, one.cause) {
					t.Fatalf("Unlock: %v", err)
				}
				pass(0)
				if n := len(released); n > 1 || n == 1 != one.releases {
					t.Fatalf("%d releases", n)
				}
				if one.releases {
					if r := <-released; r.Target != took || len(r.Releases) != 1 || r.Releases[0].Path != "a:/b/c" {
						t.Errorf("released by %+v", r)
					}
				}
			})
		})
	}
}

func TestCancelledWaitLeavesNothing(t *testing.T) {
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	held, err := a.Lock(context.Background(), p)
	mustLock(t, held, err)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := a.Lock(ctx, p, OnQueued(func(Queued) { cancel() }))
		failed <- err
	}()
	if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	waiters(t, b, p, 0)
	must(t, held.Unlock())
	l, err := b.TryLock(context.Background(), p)
	mustLock(t, l, err)
}

func TestCancelAgainstGrant(t *testing.T) {
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	for i := range 30 {
		held, err := b.Lock(within(t, patience), p)
		mustLock(t, held, err)
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan *Lock)
		queued := make(chan struct{})
		go func() {
			l, _ := a.Lock(ctx, p, OnQueued(func(Queued) { close(queued) }))
			got <- l
		}()
		<-queued
		go held.Unlock()
		if i%2 == 0 {
			time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel) // a race on purpose
		} else {
			cancel()
		}
		if l := <-got; l != nil {
			must(t, l.Unlock())
		}
		cancel()
	}
	l, err := b.Lock(within(t, patience), p) // whoever won, nothing is left
	mustLock(t, l, err)
}

func TestDeadlineEndsTheWait(t *testing.T) {
	c := dial(t, server(t))
	p := path(t, "/a/b")
	held, err := c.Lock(context.Background(), p)
	mustLock(t, held, err)
	began := time.Now()
	_, err = c.Lock(within(t, 100*time.Millisecond), p)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if d := time.Since(began); d < 90*time.Millisecond || d > patience {
		t.Fatalf("waited %v", d)
	}
	waiters(t, c, p, 0)
}

func TestWithLock(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c := dial(t, server(t))
	p := path(t, "/a/b")
	wrong := errors.New("wrong")
	err := c.WithLock(ctx, p, func(ctx context.Context, l *Lock) error {
		if _, err := c.TryLock(ctx, p); !IsConflict(err) {
			t.Errorf("inside: %v", err)
		}
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Fatalf("got %v", err)
	}
	err = c.WithLock(ctx, p, func(run context.Context, l *Lock) error {
		must(t, c.ForceRelease(ctx, l.Owner(), ""))
		<-run.Done()
		return context.Cause(run)
	}, TTL(2*time.Second))
	if !IsLost(err) {
		t.Fatalf("a lost lock: %v", err)
	}
	outer, stop := context.WithCancelCause(ctx)
	err = c.WithLock(outer, p, func(run context.Context, l *Lock) error {
		stop(wrong)
		<-run.Done()
		return context.Cause(run)
	})
	if !errors.Is(err, wrong) {
		t.Fatalf("the caller's context: %v", err)
	}
	l, err := c.TryLock(ctx, p)
	mustLock(t, l, err)
}

func TestLockOptionsAreChecked(t *testing.T) {
	c := dial(t, server(t))
	for name, do := range map[string]func() error{
		"path":   func() error { _, err := c.Lock(context.Background(), "nonsense"); return err },
		"no ttl": func() error { _, err := c.Lock(context.Background(), "a:/b", TTL(time.Millisecond)); return err },
		"none":   func() error { _, err := c.LockAll(context.Background(), nil); return err },
		"owner":  func() error { _, err := c.Lock(context.Background(), "a:/b", Owner("a\x00b")); return err },
		"token":  func() error { _, err := c.Lock(context.Background(), "a:/b", Token(1<<62)); return err },
	} {
		if err := do(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Lock(context.Background(), "a:/b",
		Labels(map[string]string{"x": string(make([]byte, 5000))})); err == nil {
		t.Error("labels beyond the limit")
	}
}
