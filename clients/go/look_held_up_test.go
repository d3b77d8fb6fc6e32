package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// believedFor has another client of the owner, or an operator, give one path back, and a rival take it; it returns for
// how long the lock is believed in after that.
func believedFor(t *testing.T, s *timed, l *Lock, path string) time.Duration {
	t.Helper()
	must(t, l.Err())
	s.other(&wire.Request{Op: wire.OpRelease, Owner: l.Owner(), Releases: []wire.ReleaseRequest{{Path: path}}})
	if !s.rival(path) {
		t.Fatal("this shows nothing")
	}
	began := time.Now()
	for l.Err() == nil && time.Since(began) < 2*time.Hour {
		pass(100 * time.Millisecond)
	}
	return time.Since(began)
}

// TestOneSlowAnswer: one question about what an owner holds, which is two paths, has its answer late. Later, when all
// is well, another client of the owner gives a path back. The lock is believed in for no longer than a TTL, as without
// that.
func TestOneSlowAnswer(t *testing.T) {
	for name, one := range map[string]struct{ ttl, slow time.Duration }{
		"30 s, one of 20 s": {30 * time.Second, 20 * time.Second},
		"30 s, one of 12 s": {30 * time.Second, 12 * time.Second},
		"3 s, one of 2 s":   {3 * time.Second, 2 * time.Second},
		"30 s, none":        {30 * time.Second, time.Millisecond},
	} {
		for _, owner := range []string{"me", ""} {
			t.Run(name+" "+owner, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c, s := newTimed(t)
					opts := []LockOption{TTL(one.ttl)}
					if owner != "" {
						opts = append(opts, Owner(owner))
					}
					l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, opts...)
					mustLock(t, l, err)
					s.takes(always(time.Millisecond, nil))
					pass(10 * one.ttl)
					must(t, l.Err())
					s.takes(func(req *wire.Request) (time.Duration, bool) {
						if req.Op == wire.OpListLocks {
							s.mu.Lock()
							s.pace = always(time.Millisecond, nil) // it is once
							s.mu.Unlock()
							return one.slow, false
						}
						return time.Millisecond, false
					})
					for { // until that is answered
						pass(100 * time.Millisecond)
						c.keeper.mu.Lock()
						checking := l.lease.checking
						c.keeper.mu.Unlock()
						if checking {
							break
						}
					}
					pass(one.slow + time.Second)
					must(t, l.Err())
					if d := believedFor(t, s, l, "a:/b/d"); d > one.ttl+time.Second {
						t.Errorf("TTL %v: a rival has a path of the lock, and it was believed in for %v (%.1f TTLs)",
							one.ttl, d, float64(d)/float64(one.ttl))
					}
				})
			})
		}
	}
}

// TestOneLateAnswer: one question beside the renewals is answered after ten minutes, and the lock is looked at with
// each renewal meanwhile. It is looked at as often as ever once that is answered.
func TestOneLateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		c, s := newTimed(t)
		l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		s.takes(always(time.Millisecond, nil))
		pass(time.Minute)
		const late = 10 * time.Minute
		var asked atomic.Int64
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks {
				if asked.Add(1) == 1 {
					return late, false
				}
			}
			return time.Millisecond, false
		})
		pass(late + time.Minute)
		before := asked.Load()
		if d := believedFor(t, s, l, "a:/b/d"); d > 3*ttl {
			t.Errorf("a rival has a path of the lock, and it was believed in for %v (%.0f TTLs); questions before: %d",
				d, float64(d)/float64(ttl), before)
		}
	})
}

// TestSlowPages: what an owner holds is told in two pages, and in one round one of them, or both, take 3 s, or the
// second is never told. Later, when the rest is well, another client of the owner gives back a path that is told on the
// second. The lock is believed in for its own TTL and what two pages count for at most, or for three while that one
// question is open.
func TestSlowPages(t *testing.T) {
	const ttl = 6 * time.Second
	first := func(req *wire.Request) bool { return len(req.Cursor) == 0 }
	for name, one := range map[string]struct {
		slow func(req *wire.Request) bool
		late time.Duration
		most time.Duration
	}{
		"the first":  {first, 3 * time.Second, ttl},
		"the second": {func(req *wire.Request) bool { return !first(req) }, 3 * time.Second, ttl},
		"both": {func(*wire.Request) bool { return true }, 3 * time.Second,
			ttl + 2*checkShare*slowPage},
		"the second is never told": {func(req *wire.Request) bool { return !first(req) }, 24 * time.Hour, 3 * ttl},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				many := manyBefore(t, c, 600)
				l, err := c.TryLock(context.Background(), "a:/b/c", Owner("me"), TTL(ttl))
				mustLock(t, l, err)
				s.takes(always(time.Millisecond, nil))
				pass(10 * ttl)
				must(t, l.Err())
				var pages atomic.Int64
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if n := pages.Load(); req.Op == wire.OpListLocks && n < 2 && first(req) == (n == 0) {
						if pages.Add(1); one.slow(req) {
							return one.late, false
						}
					}
					return time.Millisecond, false
				})
				for pages.Load() < 2 {
					pass(time.Second)
				}
				pass(min(one.late, time.Minute) + 2*time.Second)
				must(t, l.Err())
				if d := believedFor(t, s, l, "a:/b/c"); d > one.most+time.Second {
					t.Errorf("a rival has the path, and it was believed in for %v", d)
				}
				s.isHeld(many)
			})
		})
	}
}

// TestHungPagesPile: the later pages of what one owner holds are told late, or never. All else is well, and neither its
// lock is lost nor one of another owner in the same log.
func TestHungPagesPile(t *testing.T) {
	for _, one := range []struct{ ttl, late time.Duration }{
		{3 * time.Second, 20 * time.Second}, {6 * time.Second, time.Minute}, {6 * time.Second, 24 * time.Hour},
		{30 * time.Second, time.Hour},
	} {
		t.Run(fmt.Sprint(one.ttl, " ", one.late), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				many := manyBefore(t, c, 600)
				l, err := c.TryLock(context.Background(), "a:/b/c", Owner("me"), TTL(one.ttl))
				mustLock(t, l, err)
				other, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/o1"}, {Path: "a:/b/o2"}},
					Owner("other"), TTL(one.ttl))
				mustLock(t, other, err)
				s.takes(always(time.Millisecond, nil))
				pass(10 * one.ttl)
				var later atomic.Int64
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpListLocks && len(req.Cursor) > 0 {
						later.Add(1)
						return one.late, false
					}
					return time.Millisecond, false
				})
				for range 60 {
					pass(one.ttl)
					must(t, l.Err())
					must(t, other.Err())
				}
				if later.Load() == 0 {
					t.Error("this shows nothing: no later page was asked for")
				}
				s.isHeld(l)
				s.isHeld(other)
				s.isHeld(many)
			})
		})
	}
}

// TestOneQuestionIsNeverAnswered: one question beside the renewals of an owner who holds two paths has no answer. What
// it asks is asked with a renewal then, and no more often than before.
func TestOneQuestionIsNeverAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl, span = 6 * time.Second, time.Hour
		c, s := newTimed(t)
		l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		s.takes(always(time.Millisecond, nil))
		pass(time.Minute)
		var asked, number atomic.Int64
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && asked.Add(1) == number.Load() {
				return 24 * time.Hour, false
			}
			return time.Millisecond, false
		})
		pass(span)
		before := asked.Swap(0)
		number.Store(1)
		pass(span)
		must(t, l.Err())
		if n := asked.Load(); n > before+before/10 {
			t.Errorf("asked %d times in %v, and %d times before", n, span, before)
		}
	})
}
