package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLaterPagesNeverTold: what an owner holds is told in two pages. In two rounds the second is never told
// (TestSlowPages has one such round), then all is well: what was not answered is asked again. Another client of the
// owner gives back a path that is told on the second page.
func TestLaterPagesNeverTold(t *testing.T) {
	const ttl = 6 * time.Second
	for _, never := range []int64{1, 2} {
		t.Run(fmt.Sprint(never), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				many := manyBefore(t, c, 600)
				l, err := c.TryLock(context.Background(), "a:/b/c", Owner("me"), TTL(ttl))
				mustLock(t, l, err)
				s.takes(always(time.Millisecond, nil))
				pass(10 * ttl)
				must(t, l.Err())
				var hung atomic.Int64
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpListLocks && len(req.Cursor) > 0 && hung.Load() < never {
						hung.Add(1)
						return 24 * time.Hour, false
					}
					return time.Millisecond, false
				})
				for hung.Load() < never {
					pass(time.Second)
				}
				s.takes(always(time.Millisecond, nil))
				pass(10 * time.Minute)
				must(t, l.Err())
				if d := believedFor(t, s, l, "a:/b/c"); d > 3*ttl+time.Second {
					t.Errorf("all is well for ten minutes, a rival has the path, and it was believed in for %v", d)
				}
				s.isHeld(many)
			})
		})
	}
}

// slowlyListed is a client with a lock of two paths, whose server tells for how long a request may take. What the
// lock's owner holds is told after a time of its own.
func slowlyListed(t *testing.T, told, takes time.Duration, opts ...Option) (*Client, *Lock) {
	t.Helper()
	f := newFake(t)
	limits := testLimits
	limits.RequestMillis = millis(told)
	serve := func(p *peer) {
		p.tells, p.lists = wire.FeatureLeases, true
		p.welcome(limits)
		p.serve(func(a *asked) *wire.Result {
			if a.req.Op != wire.OpListLocks {
				return granted(a.req)
			}
			time.AfterFunc(takes, func() { p.reply(a.id, a.req.Op, p.taken.of(a.req.Owner)) })
			return nil
		})
	}
	go func() {
		for {
			select {
			case p := <-f.conns:
				go serve(p)
			case <-t.Context().Done():
				return
			}
		}
	}()
	c := dial(t, f.addr, append([]Option{WithDialer(f.dial), WithGrace(longGrace)}, opts...)...)
	l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, TTL(time.Hour))
	return c, mustLock(t, l, err)
}

// TestUnansweredWithinWhatIsTold: a server that answers within the time that it tells is not given up, one that does
// not is after twice that, or after a minute.
func TestUnansweredWithinWhatIsTold(t *testing.T) {
	for _, of := range []struct {
		told, takes time.Duration
		stays       bool
	}{
		{0, 50 * time.Second, true},
		{time.Second, 50 * time.Second, true},
		{2 * time.Minute, 3 * time.Minute, true},
		{0, 90 * time.Second, false},
		{30 * time.Second, 90 * time.Second, false},
		{2 * time.Minute, 6 * time.Minute, false},
	} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, l := slowlyListed(t, of.told, of.takes)
				before := c.connections.Load()
				pass(2 * time.Hour)
				must(t, l.Err())
				if stays := c.connections.Load() == before; stays != of.stays {
					t.Errorf("the connection stays: %v, want %v", stays, of.stays)
				}
			})
		})
	}
}

// TestUnansweredWhileStopped: the clock jumps by ten minutes, as when the process is stopped or the machine sleeps,
// while a question is under way. All is answered soon after that.
func TestUnansweredWhileStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var slept atomic.Int64
		began := time.Now()
		clock := func() time.Duration { return time.Since(began) + time.Hour + time.Duration(slept.Load()) }
		c, l := slowlyListed(t, 30*time.Second, 10*time.Second, withClock(clock))
		before := c.connections.Load()
		asks := func() bool {
			c.keeper.mu.Lock()
			defer c.keeper.mu.Unlock()
			return l.lease.checking
		}
		for !asks() {
			if pass(time.Second); time.Since(began) > 2*time.Hour {
				t.Fatal("this shows nothing: nothing is asked")
			}
		}
		slept.Store(int64(10 * time.Minute))
		pass(time.Minute)
		must(t, l.Err())
		if c.connections.Load() != before {
			t.Error("the connection was given up")
		}
	})
}
