package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// bind binds an owner at a fake server.
func bind(t testing.TB, c *Client, p *peer, owner string, grace, ttl time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.Bind(context.Background(), owner, grace, ttl)
		done <- err
	}()
	p.ok(p.want(wire.OpBind))
	must(t, <-done)
}

// TestBoundAgainNothingIsShortened: on the next connection an owner's leases are extended to the
// time of its Bind, and those that its locks have renewed stay as long as they are.
func TestBoundAgainNothingIsShortened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		bind(t, c, p, "o", 10*time.Second, time.Second)
		l := lockWith(t, c, p, Owner("o"), TTL(5*time.Minute))
		p.Close()
		p = f.open()
		var bound, extended bool
		go p.serve(func(a *asked) *wire.Result {
			switch r := a.req; {
			case r.Op == wire.OpBind:
				bound = true
				if r.TTLMillis != 0 || r.GraceMillis != 10_000 {
					t.Errorf("bound again with a TTL of %d ms and a grace of %d ms", r.TTLMillis, r.GraceMillis)
				}
			case r.Op == wire.OpRenew && r.TTLMillis == 1000:
				extended = bound && r.Flags == wire.FlagExtend
			}
			return granted(a.req)
		})
		pass(time.Second / 2)
		if !bound || !extended {
			t.Fatalf("bound: %v, then extended: %v", bound, extended)
		}
		must(t, l.Err())
	})
}

// TestABindThatIsRefusedOnTheNextConnectionIsAskedAgain: nobody else would hear of it.
func TestABindThatIsRefusedOnTheNextConnectionIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		bind(t, c, p, "o", time.Minute, time.Hour)
		p.Close()
		p = f.open()
		for range 5 {
			first := p.next()
			p.refuse(first, wire.Unavailable)
			p.ok(p.next()) // the other of the two
			if again := p.want(first.req.Op); again.req.Owner != "o" {
				t.Fatalf("asked again: %+v", again.req)
			} else {
				p.ok(again)
			}
			p.quiet(2 * maxRenewRetry)
			p.Close()
			p = f.open()
		}
	})
}

// TestAnOwnerThatIsNotBoundAnyMoreIsNotBoundAgain, though that was refused before.
func TestAnOwnerThatIsNotBoundAnyMoreIsNotBoundAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		bind(t, c, p, "o", time.Minute, 0)
		p.Close()
		p = f.open()
		p.refuse(p.want(wire.OpBind), wire.Unavailable)
		done := make(chan error, 1)
		go func() { done <- c.Unbind(context.Background(), "o") }()
		p.ok(p.want(wire.OpUnbind))
		must(t, <-done)
		p.quiet(2 * maxRenewRetry)
	})
}

// TestABindOfUnknownOutcome: while nobody knows whether an owner is bound, its locks count with
// the lower grace; on the next connection it is not.
func TestABindOfUnknownOutcome(t *testing.T) {
	const short = 200 * time.Millisecond
	unbind := func(c *Client, ctx context.Context) error { return c.Unbind(ctx, "o") }
	rebind := func(c *Client, ctx context.Context) error {
		_, err := c.Bind(ctx, "o", time.Minute, 0)
		return err
	}
	for name, tc := range map[string]struct {
		before bool // the owner is bound with the short grace
		op     wire.Op
		ask    func(c *Client, ctx context.Context) error
		after  time.Duration // what its grace is on the next connection
	}{
		"Bind": {false, wire.OpBind, func(c *Client, ctx context.Context) error {
			_, err := c.Bind(ctx, "o", short, 0)
			return err
		}, DefaultGrace},
		"Unbind":      {true, wire.OpUnbind, unbind, DefaultGrace},
		"second Bind": {true, wire.OpBind, rebind, short},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, _ := onLine(f)
				if tc.before {
					bind(t, c, p, "o", short, 0)
				}
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- tc.ask(c, ctx) }()
				p.want(tc.op)
				cancel()
				if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				lasts := func(want time.Duration) {
					t.Helper()
					l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
					if d := time.Until(l.Deadline()); d > want || d < want/2 {
						t.Fatalf("sure for %v, want about %v", d, want)
					}
					lostBy(t, l, ErrUncertain) // nothing is answered any more
				}
				lasts(short)
				p.Close()
				p = f.open()
				if tc.op == wire.OpUnbind { // while it may be carried out, signs of life say nothing
					p.ok(p.want(wire.OpRenew))
				}
				if tc.after == short {
					p.ok(p.want(wire.OpBind))
				}
				lasts(tc.after)
			})
		})
	}
}

// TestAnOwnerIsBoundToTheHomeLane: also what another lane has taken of it hangs on the home
// lane's connection from then on, and ends with it.
func TestAnOwnerIsBoundToTheHomeLane(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run(map[bool]string{true: "answered", false: "not answered"}[answered], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 3, 0, 1, 2, 0)
				f.serve = func(_ *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpBind && !answered {
						return nil
					}
					return granted(a.req)
				}
				c := f.client(WithKeepAlive(5 * time.Second))
				f.warm(c)
				l, err := c.Lock(within(t, 10*time.Second), in(1), Owner("o"), TTL(5*time.Minute))
				mustLock(t, l, err)
				if n := f.last(wire.OpAcquire).node; n != "n1" {
					t.Fatalf("it was asked at %s", n)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if _, err := c.Bind(ctx, "o", DefaultGrace, 0); (err == nil) != answered {
					t.Fatal(err)
				}
				if n := f.last(wire.OpBind).node; n != "n0" {
					t.Fatalf("bound at %s", n)
				}
				f.mu.Lock()
				f.dead["n1"], f.dead["n2"] = true, true // but their connections live
				f.mu.Unlock()
				f.kill("n0")
				pass(graceFor + time.Second)
				if err := l.Err(); !errors.Is(err, ErrUncertain) {
					t.Fatalf("%v after the home lane's connection: %v, sure for %v", graceFor, err,
						time.Until(l.Deadline()))
				}
			})
		})
	}
}

// TestABindIsCarriedOutLate: a Bind with a TTL renews as a renewal of the program's own does, and
// is in no order with those that keep the locks. Until it is answered they are believed in for
// no longer than it says, also if its caller has gone.
func TestABindIsCarriedOutLate(t *testing.T) {
	const short = 3 * time.Second
	for name, one := range map[string]struct{ before, goes bool }{
		"after the lock is taken":  {},
		"before the lock is taken": {before: true},
		"and its caller goes":      {goes: true},
		"before, and it goes, too": {before: true, goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				var l *Lock
				if !one.before {
					l = lockWith(t, c, p, Owner("o"), TTL(5*time.Minute))
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := c.Bind(ctx, "o", longGrace, short)
					done <- err
				}()
				late := p.want(wire.OpBind) // it asks every log, and one of them is slow
				if one.goes {
					cancel()
					if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
						t.Fatal(err)
					}
					done <- nil
				}
				if one.before {
					l = lockWith(t, c, p, Owner("o"), TTL(5*time.Minute))
				}
				for range 20 {
					p.ok(p.next())
					if d := pastNow(l); d > short {
						t.Fatalf("sure for %v while a Bind renews it for %v", d, short)
					}
				}
				p.ok(late)
				must(t, <-done)
				for pastNow(l) < time.Minute {
					p.ok(p.next())
				}
			})
		})
	}
}
