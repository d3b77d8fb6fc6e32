package pathlockd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func TestLeaseIsMeasuredFromTheFirstSend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		began := time.Now()
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op == wire.OpAcquire {
				pass(4 * time.Second)
			}
			return nil, false
		})
		if d := l.Deadline().Sub(began); d != sureFor {
			t.Fatalf("sure for %v after the acquire was sent, want %v", d, sureFor)
		}
	})
}

func TestRenewalIsMeasuredFromItsSend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		var sent time.Time
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op == wire.OpRenew {
				sent = a.at
				time.Sleep(4 * time.Second) // it takes the server so long, by the bubble's clock
			}
			return nil, false
		})
		pass(watchAfter + 5*time.Second)
		if d := l.Deadline().Sub(sent); d != sureFor {
			t.Fatalf("sure for %v after the renewal was sent, want %v", d, sureFor)
		}
	})
}

func TestLongWaitIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(24 * time.Hour))
		const wait = time.Hour
		began := time.Now()
		var renewed time.Time
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch a.req.Op {
			case wire.OpAcquire:
				pass(wait)
			case wire.OpRenew:
				if renewed.IsZero() {
					renewed = a.at
				}
			}
			return nil, false
		})
		if d := renewed.Sub(began); d != wait {
			t.Fatalf("renewed after %v, want right after the grant", d)
		}
		if d := l.Deadline().Sub(renewed); d != sureFor {
			t.Fatalf("sure for %v after the renewal, want %v", d, sureFor)
		}
	})
}

func TestLostBetweenGrantAndConfirmationIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		var acquires, renewals atomic.Int32
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch a.req.Op {
			case wire.OpAcquire:
				if acquires.Add(1) == 1 {
					pass(15 * time.Second)
				}
			case wire.OpRenew:
				if renewals.Add(1) == 1 {
					return &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}, true
				}
			}
			return nil, false
		})
		must(t, l.Err())
		if n := acquires.Load(); n != 2 {
			t.Fatalf("%d acquires, want 2", n)
		}
	})
}

func TestRenewalSaysLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			return &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingOwnerSet}, a.req.Op == wire.OpRenew
		})
		pass(10 * time.Second)
		var lost *LostError
		if !errors.As(l.Err(), &lost) || !errors.Is(lost, ErrExpired) || lost.Reason != wire.ReasonMissingOwnerSet {
			t.Fatalf("got %v", l.Err())
		}
	})
}

func TestRevokeIsToldByARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		told := make(chan *Lock, 9)
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			return &wire.Result{Flag: true}, a.req.Op == wire.OpRenew
		}, OnRevoke(func(l *Lock) { told <- l }))
		pass(time.Minute)
		<-l.Revoked()
		if len(told) != 1 || <-told != l {
			t.Fatalf("told %d times, want once", len(told))
		}
		must(t, l.Err()) // to be asked is no loss
	})
}

func TestUnlockDuringARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		l := lockWith(t, c, p)
		var renewal *asked
		for renewal == nil {
			if a := p.next(); a.req.Op == wire.OpRenew {
				renewal = a
			} else {
				p.ok(a)
			}
		}
		done := make(chan error, 1)
		go func() { done <- l.Unlock() }()
		release := p.want(wire.OpUnsubscribe)
		p.ok(release)
		release = p.want(wire.OpRelease)
		p.reply(renewal.id, wire.OpRenew, &wire.Result{Status: wire.RenewLost})
		p.ok(release)
		must(t, <-done)
		if err := l.Err(); !errors.Is(err, ErrUnlocked) {
			t.Fatal(err)
		}
	})
}

// TestConfirmationTakesNoTimeFromOtherLocks: a lock of a short TTL that comes late is
// confirmed without shortening the lease that it shares.
func TestConfirmationTakesNoTimeFromOtherLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		long := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch {
			case a.req.Op == wire.OpAcquire && a.req.TTLMillis == 1000:
				time.Sleep(time.Minute) // it waits, by the bubble's clock
			case a.req.Op == wire.OpRenew && a.req.Flags&wire.FlagExtend == 0:
				t.Errorf("a renewal of %d ms that may shorten the lease", a.req.TTLMillis)
			}
			return nil, false
		}, Owner("o"), TTL(5*time.Minute))
		short, err := c.Lock(context.Background(), "a:/b/d", Owner("o"), TTL(time.Second))
		must(t, err)
		must(t, long.Err())
		must(t, short.Err())
	})
}

// TestARenewalOfOnesOwnMayShortenALease: what the program asks for by itself counts for
// its locks too, from when it is sent.
func TestARenewalOfOnesOwnMayShortenALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		var l *Lock
		seen := false
		l = held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op == wire.OpRenew && a.req.TTLMillis == 2000 {
				seen = true
				if d := time.Until(l.Deadline()); d > 2*time.Second {
					t.Errorf("sure for %v while it is shortened", d)
				}
			}
			return nil, a.req.Op == wire.OpRenew && a.req.TTLMillis != 2000 && seen
		}, Owner("o"), TTL(time.Hour))
		pass(time.Minute)
		began := time.Now()
		_, err := c.Renew(context.Background(), "o", 2*time.Second, "", 0)
		must(t, err)
		lostAt(t, l, began.Add(2*time.Second-margin(2*time.Second)), ErrUncertain)
	})
}

// TestClocksDoNotRunAlike: a server whose clock is a thousandth faster than the client's ends no
// lease that somebody believes in, however long it is.
func TestClocksDoNotRunAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 10 * time.Hour
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		began := time.Now()
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) { return nil, a.req.Op == wire.OpRenew }, TTL(ttl))
		lostAt(t, l, began.Add(ttl-ttl/1000-time.Second), ErrUncertain)
	})
}

// TestARenewalOfOnesOwnBesideAnAcquire may be carried out after it, and shorten the lease.
func TestARenewalOfOnesOwnBesideAnAcquire(t *testing.T) {
	for _, first := range []wire.Op{wire.OpAcquire, wire.OpRenew} {
		t.Run(first.String()+" is answered first", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				got := locking(c, Owner("o"), TTL(5*time.Minute))
				acquire := p.want(wire.OpAcquire)
				renewed := make(chan error, 1)
				go func() {
					_, err := c.Renew(context.Background(), "o", time.Second, "", 0)
					renewed <- err
				}()
				renew := p.want(wire.OpRenew) // in the order in which they are carried out, too
				if first == wire.OpAcquire {
					p.ok(acquire)
				} else {
					p.ok(renew)
					must(t, <-renewed)
					p.ok(acquire)
				}
				confirm := p.want(wire.OpRenew)
				if pass(time.Second / 2); len(got) != 0 {
					t.Fatal("the lock was handed out unconfirmed")
				}
				if confirm.req.TTLMillis != 300_000 || confirm.req.Flags != keepFlags {
					t.Fatalf("confirmed by %+v", confirm.req)
				}
				p.ok(confirm)
				go p.read() // it asks whether the lock is in that lease
				must(t, (<-got)())
				if first == wire.OpAcquire { // it took that long
					p.ok(renew)
					must(t, <-renewed)
				}
			})
		})
	}
}

// TestARenewalOfOnesOwnIsCarriedOutLate: one that names no domain is in no order with what takes
// and keeps locks. Until it is answered, and as long after that as nothing else was, they are believed
// in for no longer than it says, however it was asked for.
func TestARenewalOfOnesOwnIsCarriedOutLate(t *testing.T) {
	const short = 3 * time.Second
	asks := map[string]func(c *Client, req *wire.Request, done func(*wire.Result, error)){
		"Renew": func(c *Client, req *wire.Request, done func(*wire.Result, error)) {
			go func() { done(c.Renew(context.Background(), req.Owner, short, "", 0)) }()
		},
		"Renew, and its caller goes": func(c *Client, req *wire.Request, done func(*wire.Result, error)) {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_, err := c.Renew(ctx, req.Owner, short, "", 0)
				if errors.Is(err, ErrOutcomeUnknown) {
					err = nil
				}
				done(nil, err)
			}()
		},
		"Go": (*Client).Go,
		"Go, and nobody waits": func(c *Client, req *wire.Request, done func(*wire.Result, error)) {
			c.Go(req, nil)
			done(nil, nil)
		},
		"Batch": func(c *Client, req *wire.Request, done func(*wire.Result, error)) {
			b := c.Batch()
			if err := b.Add(req, done); err != nil {
				done(nil, err)
			}
			if err := b.Send(context.Background()); err != nil {
				done(nil, err)
			}
		},
	}
	for name, ask := range asks {
		for _, before := range []bool{false, true} {
			when := map[bool]string{false: "after", true: "before"}[before]
			t.Run(name+", "+when+" the lock is taken", func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.client(WithKeepAlive(time.Hour))
					var l *Lock
					if !before {
						l = lockWith(t, c, p, Owner("o"), TTL(5*time.Minute))
					}
					done := make(chan error, 1)
					req := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: millis(short)}
					ask(c, req, func(_ *wire.Result, err error) { done <- err })
					late := p.want(wire.OpRenew) // it asks every log, and one of them is slow
					if before {
						l = lockWith(t, c, p, Owner("o"), TTL(5*time.Minute))
					}
					for range 20 {
						p.ok(p.next()) // what keeps the lock, and comes before it or after
						if d := pastNow(l); d > short {
							t.Fatalf("sure for %v while it is renewed for %v", d, short)
						}
					}
					p.ok(late)
					must(t, <-done)
					if d := pastNow(l); d > short {
						t.Errorf("sure for %v after it was renewed for %v", d, short)
					}
					for pastNow(l) < time.Minute {
						p.ok(p.next())
					}
				})
			})
		}
	}
}

// pastNow is for how long a lock is believed in, once what is under way has come.
func pastNow(l *Lock) time.Duration {
	pass(0)
	return time.Until(l.Deadline())
}
