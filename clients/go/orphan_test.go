package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of requests that nobody waits for any more.

// TestARepeatThatIsRefusedSaysNothingOfTheFirstTime: an acquire whose connection broke may
// have been carried out, whatever its repeats are answered. When its caller goes, before
// an answer or between two repeats, what it may have taken is given back: of a lock, and of
// any acquire that waits.
func TestARepeatThatIsRefusedSaysNothingOfTheFirstTime(t *testing.T) {
	for what, ask := range map[string]func(ctx context.Context, c *Client) error{
		"a lock": func(ctx context.Context, c *Client) error {
			_, err := c.TryLock(ctx, "a:/b/c", TTL(5*time.Minute))
			return err
		},
		"a wait": func(ctx context.Context, c *Client) error {
			_, err := c.Do(ctx, waiting(time.Hour))
			return err
		},
	} {
		for _, open := range []bool{true, false} {
			name := map[bool]string{true: "a repeat is under way", false: "the next repeat is still to come"}[open]
			t.Run(what+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.client(WithKeepAlive(time.Hour))
					ctx, cancel := context.WithCancel(context.Background())
					left := make(chan error, 1)
					go func() { left <- ask(ctx, c) }()
					first := p.want(wire.OpAcquire) // carried out: the path is held now
					p.Close()
					p = f.open()
					var a *asked
					for try := range 12 { // until the pauses are long ones
						if a = p.want(wire.OpAcquire); a.id != first.id {
							t.Fatalf("repeated as %d, want %d", a.id, first.id)
						}
						if try < 11 || !open {
							p.refuse(a, wire.Unavailable)
						}
					}
					pass(maxRetry / 10)
					cancel()
					if err := <-left; !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					if open {
						p.refuse(a, wire.Unavailable)
					}
					if r := p.wantPast(wire.OpRelease); r.req.Target != first.id || len(r.req.Releases) != 1 {
						t.Fatalf("given back: %+v, want what %d took", r.req, first.id)
					} else {
						p.ok(r)
					}
				})
			})
		}
	}
}

// TestAnOutcomeThatTheServerDoesNotKnow is settled by what is answered to no later repeat,
// also on the same connection.
func TestAnOutcomeThatTheServerDoesNotKnow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := make(chan error, 1)
		go func() {
			_, err := c.IncrFencingToken(context.Background(), "")
			done <- err
		}()
		first := p.want(wire.OpIncrToken)
		p.refuse(first, wire.DeadlineExceeded) // carried out or not
		for range 3 {
			a := p.want(wire.OpIncrToken)
			if a.id != first.id {
				t.Fatalf("asked as %d, want a repeat of %d", a.id, first.id)
			}
			p.refuse(a, wire.Unavailable)
		}
		p.ok(p.want(wire.OpIncrToken))
		must(t, <-done)
	})
}

// TestUnlockAfterTheLaneIsOver: what gives an uncertain lock back goes by the session that took
// it. When that is over, as nothing goes by it any more, it is given back by its token; but no
// read whose owner somebody else may be too.
func TestUnlockAfterTheLaneIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 0, 1, 2, 0)
		c := f.client(WithKeepAlive(5 * time.Second))
		f.warm(c)
		write, err := c.Lock(within(t, 10*time.Second), in(1), TTL(5*time.Minute))
		mustLock(t, write, err)
		read, err := c.RLock(within(t, 10*time.Second), in(1), TTL(5*time.Minute), Owner("me"))
		mustLock(t, read, err)
		if n := f.last(wire.OpAcquire).node; n != "n1" {
			t.Fatalf("it was asked at %s", n)
		}
		for _, n := range []string{"n0", "n1", "n2"} {
			f.kill(n)
		}
		lostBy(t, write, ErrUncertain)
		lostBy(t, read, ErrUncertain)
		f.revive("n0")
		f.revive("n2")
		f.lead(0, 2, 2, 0)
		pass(4 * idleLane)
		f.tell()
		pass(4 * idleLane)
		write.in.mu.Lock()
		over := write.in.mu.closed
		write.in.mu.Unlock()
		if !errors.Is(over, errRetired) {
			t.Fatalf("the lane is not over: %v", over)
		}
		before := f.last(wire.OpRelease).asked
		if err := read.Unlock(); !errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
		pass(time.Second)
		if f.last(wire.OpRelease).asked != before {
			t.Fatal("somebody's read was given back")
		}
		if err := write.Unlock(); !errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
		pass(time.Second)
		a := f.last(wire.OpRelease)
		if a.asked == before || a.req.Owner != write.Owner() || a.req.Token != write.Token() || a.req.Target != 0 {
			t.Fatalf("given back: %+v", a.req)
		}
		if c.gates.shut.Load() != 0 {
			t.Fatal("a gate is shut")
		}
	})
}

// TestUnlockAfterTheLeaderMoved: a lock whose owner the program names is given back by token and request, on the lane
// that took it, also when its leader has been elsewhere for long.
func TestUnlockAfterTheLeaderMoved(t *testing.T) {
	for name, one := range map[string]struct{ long, closes bool }{
		"at once": {false, false}, "Close, at once": {false, true},
		"after long": {true, false}, "Close, after long": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 3, 0, 1, 2, 0)
				f.serve = func(_ *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpListLocks {
						return holding(in(1))
					}
					return granted(a.req)
				}
				c := f.client()
				f.warm(c)
				l, err := c.Lock(within(t, 10*time.Second), in(1), TTL(time.Minute), Owner("me"))
				mustLock(t, l, err)
				took := f.last(wire.OpAcquire)
				f.lead(0, 2, 2, 0)
				f.tell()
				if one.long {
					pass(4 * idleLane) // it is renewed elsewhere, and nothing goes by the lane
				}
				if one.closes {
					must(t, c.Close())
				} else {
					must(t, l.Unlock())
				}
				a := f.last(wire.OpRelease)
				if a.req == nil {
					t.Fatal("nothing was given back")
				}
				switch {
				case took.node != "n1" || a.req.Owner != "me" || a.req.Token != l.Token():
					t.Errorf("taken at %s, given back: %+v", took.node, a.req)
				case a.node != "n1" || a.req.Target != took.id:
					t.Errorf("given back at %s: %+v, it was taken by %d", a.node, a.req, took.id)
				}
			})
		})
	}
}

// TestUnlockAfterTheSessionWasForgotten: a lock that was lost to an outage for which servers do
// not remember a session is given back by its token, as no session knows its request any more;
// but no read whose owner somebody else may be too.
func TestUnlockAfterTheSessionWasForgotten(t *testing.T) {
	for name, during := range map[string]bool{"in the outage": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithKeepAlive(time.Hour))
				write := lockWith(t, c, p, TTL(time.Hour))
				reads := make(chan *Lock, 1)
				go func() {
					l, err := c.RLock(t.Context(), "a:/b/d", TTL(time.Hour), Owner("me"))
					reads <- mustLock(t, l, err)
				}()
				p.ok(p.want(wire.OpAcquire))
				read, old := <-reads, string(p.hello.Session)
				way.cut(errUnreachable)
				lostBy(t, write, ErrUncertain)
				lostBy(t, read, ErrUncertain)
				unlock := func() {
					for _, l := range []*Lock{read, write} {
						if err := l.Unlock(); !errors.Is(err, ErrUncertain) {
							t.Error(err)
						}
					}
				}
				pass(time.Duration(testLimits.RepeatMillis)*time.Millisecond - givesUp/2)
				if during {
					unlock()
				}
				pass(givesUp/2 + time.Second) // which leaves it time to connect again
				way.mend()
				if p = f.open(); string(p.hello.Session) == old {
					t.Fatal("the session was not forgotten")
				}
				if !during {
					unlock()
				}
				if a := p.wantPast(wire.OpRelease); a.req.Owner != write.Owner() || a.req.Token != write.Token() ||
					a.req.Target != 0 {
					t.Fatalf("given back: %+v", a.req)
				} else {
					p.ok(a)
				}
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpRelease {
						t.Errorf("given back too: %+v", a.req)
					}
					return granted(a.req)
				})
				pass(givesUp)
				if c.gates.shut.Load() != 0 {
					t.Fatal("a gate is shut")
				}
			})
		})
	}
}
