package pathlockd

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Questions about locks wait for their turns, a few at a time. Here there are so many of them that some wait for
// seconds, while all that is asked is answered within the stated time, and nothing is wrong.

// gaps has so many named leases at a server, whose events are missed every so often until stop.
func (s *timed) gaps(t *testing.T, c *Client, leases int, way, every, ttl time.Duration) (locks []*Lock, stop func()) {
	t.Helper()
	for i := range leases {
		l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/b/n%d", i), Owner(fmt.Sprint("named", i)), TTL(ttl))
		locks = append(locks, mustLock(t, l, err))
	}
	pass(5 * time.Second)
	s.takes(always(way, nil))
	pass(5 * time.Second)
	missed, watched := s.missed(c)
	if watched < leases {
		t.Fatalf("%d of %d leases are watched", watched, leases)
	}
	tick, over := time.NewTicker(every), make(chan struct{})
	go func() {
		for {
			missed()
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	return locks, func() { tick.Stop(); close(over) }
}

// missed has events be missed of all owners that are watched, but for "me".
func (s *timed) missed(c *Client) (tell func(), watched int) {
	var subscriptions []uint64
	c.subs.mu.Lock()
	defer c.subs.mu.Unlock()
	for id, sub := range c.subs.mu.known {
		if sub.owner != "me" {
			subscriptions = append(subscriptions, id)
		}
	}
	return func() {
		for _, id := range subscriptions {
			s.peer().send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: id}))
		}
	}, len(subscriptions)
}

// listingsHeld counts the listings that wait in the client.
func listingsHeld(c *Client) (n int) {
	s := &c.home.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.mu.shares {
		for one := s.mu.shares[i].waits[listing].first; one != nil; one = one.next {
			n++
		}
	}
	return n
}

func countLost(locks []*Lock) (n int) {
	for _, l := range locks {
		if l.Err() != nil {
			n++
		}
	}
	return n
}

// TestShortLockBesideGaps: a lock of several paths, whose owner the client made up, lasts beside leases whose events
// are missed twice a second.
func TestShortLockBesideGaps(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 3 * time.Second} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithBacklog(1024))
				many, stop := s.gaps(t, c, 32, 200*time.Millisecond, 500*time.Millisecond, time.Hour)
				defer stop()
				l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/x"}, {Path: "a:/b/y"}}, TTL(ttl))
				mustLock(t, l, err)
				pass(2 * time.Minute)
				if l.Err() != nil {
					t.Errorf("lost: %v", l.Err())
				}
				if n := countLost(many); n > 0 {
					t.Errorf("%d of the others are lost", n)
				}
			})
		})
	}
}

// TestLaterPageBesideGaps: an owner has 600 paths for an hour, and a short lock on the second page of them, which
// another client gives back. That is told however many other questions there are.
func TestLaterPageBesideGaps(t *testing.T) {
	for _, ttl := range []time.Duration{6 * time.Second, 30 * time.Second} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithBacklog(1024))
				manyBefore(t, c, 600)
				l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
				mustLock(t, l, err)
				_, stop := s.gaps(t, c, 32, 200*time.Millisecond, 500*time.Millisecond, time.Hour)
				defer stop()
				pass(time.Minute)
				if d := believedFor(t, s, l, "a:/b/c"); d > 3*ttl+2*checkShare*slowPage {
					t.Errorf("a rival has the path, and it was believed in for %v", d)
				}
			})
		})
	}
}

// TestGapsForLong: events are missed for longer than the leases last.
func TestGapsForLong(t *testing.T) {
	for _, of := range []struct {
		leases          int
		ttl, way, every time.Duration
	}{
		{32, time.Hour, 200 * time.Millisecond, 2 * time.Second},
		{32, 30 * time.Second, 200 * time.Millisecond, 500 * time.Millisecond},
		{32, 30 * time.Second, 200 * time.Millisecond, 3 * time.Second},
		{128, 30 * time.Second, 50 * time.Millisecond, time.Second},
	} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithBacklog(1024))
				locks, stop := s.gaps(t, c, of.leases, of.way, of.every, of.ttl)
				defer stop()
				pass(of.ttl + time.Minute)
				if n := countLost(locks); n > 0 {
					t.Errorf("nothing was wrong, and %d of %d locks are lost", n, len(locks))
				}
			})
		})
	}
}

// TestQuestionsDoNotPile: more named owners than are watched, so that each renewal of the others costs a question:
// these wait, and do not become more and more.
func TestQuestionsDoNotPile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 190
		c, s := newTimed(t, WithBacklog(1024))
		locks := make([]*Lock, n)
		for i := range locks {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/b/n%d", i), Owner(fmt.Sprint("named", i)),
				TTL(10*time.Second))
			locks[i] = mustLock(t, l, err)
			pass(15 * time.Millisecond)
		}
		s.takes(always(150*time.Millisecond, nil))
		pass(10 * time.Minute)
		if w := listingsHeld(c); w > n {
			t.Errorf("%d questions of %d leases wait", w, n)
		}
		if lost := countLost(locks); lost > 0 {
			t.Errorf("%d of %d locks are lost", lost, n)
		}
	})
}

// TestLearnsBesideGaps: a lock whose token is about to be raised is asked about before that, however many other
// questions there are.
func TestLearnsBesideGaps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t, WithBacklog(1024))
		_, stop := s.gaps(t, c, 32, 200*time.Millisecond, 500*time.Millisecond, time.Hour)
		defer stop()
		if !s.rival("a:/b/z") {
			t.Fatal("this shows nothing")
		}
		me, ttl := Owner("me"), TTL(30*time.Second)
		two, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/p"}, {Path: "a:/b/q"}}, me, ttl)
		mustLock(t, two, err)
		pass(50 * time.Second)
		var all sync.WaitGroup
		all.Go(func() {
			both, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/a"}, {Path: "a:/b/z"}}, me, ttl)
			mustLock(t, both, err)
		})
		pass(time.Second)
		l, err := c.TryLock(t.Context(), "a:/b/a", me, ttl)
		mustLock(t, l, err)
		pass(4 * time.Second)
		s.rivalGives("a:/b/z")
		pass(15 * time.Second)
		if l.Err() != nil {
			t.Errorf("lost, and its owner has had it all the time (%v): %v", s.holds("me", Path{Path: "a:/b/a"}),
				l.Err())
		}
		all.Wait()
	})
}

// TestOwnersOfTheirOwn: a program that has locks in many names, and sends requests of its own in many others, goes by
// as many connections as it likes.
func TestOwnersOfTheirOwn(t *testing.T) {
	one := 0
	const programs, names = 20, 100
	for p := range programs {
		bubble(t, func(t *testing.T) {
			_, _, c := startEngine(t)
			for i := range names {
				c.used.lock(c, fmt.Sprintf("worker-%d-%d", p, i))
				c.used.request(c, fmt.Sprintf("job-%d-%d", p, i))
			}
			if c.router.one.Load() {
				one++
			}
		})
	}
	if one > programs/4 { // 2 % of them are expected, as two names may share a hash
		t.Errorf("%d of %d programs go by one connection", one, programs)
	}
}

// TestOneLongWait: for once the question about a lock waits for long, as its log has no place for it. The next one is
// asked in time.
func TestOneLongWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		c, s := newTimed(t)
		var waited atomic.Bool
		_, stop := s.gaps(t, c, mostListed+4, 0, time.Hour, time.Hour)
		defer stop()
		l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/x"}, {Path: "a:/b/y"}}, TTL(ttl))
		mustLock(t, l, err)
		pass(ttl / 2)
		stuck := time.Now().Add(25 * time.Second)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op != wire.OpListLocks {
				return 0, false
			}
			if req.Owner == l.Owner() {
				if !time.Now().Before(stuck) {
					waited.Store(true)
				}
				return 0, false
			}
			return max(0, time.Until(stuck)), false
		})
		missed, _ := s.missed(c)
		missed()
		pass(28 * time.Second)
		if !waited.Load() || l.Err() != nil {
			t.Fatalf("this shows nothing: waited %v, %v", waited.Load(), l.Err())
		}
		if d := believedFor(t, s, l, "a:/b/y"); d > 3*ttl {
			t.Errorf("a rival has the path, and it was believed in for %v", d)
		}
	})
}

// TestQuestionsAreCountedOut: questions are refused, or answered late, some of them page by page. Once all is well none
// is counted that is not under way.
func TestQuestionsAreCountedOut(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 77))
				c, s := newTimed(t)
				ttl := []time.Duration{3 * time.Second, 6 * time.Second, 30 * time.Second}[rnd.IntN(3)]
				manyBefore(t, c, 600+rnd.IntN(1200))
				_, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
				must(t, err)
				_, err = c.LockAll(t.Context(), []Path{{Path: "a:/b/o1"}, {Path: "a:/b/o2"}}, TTL(ttl))
				must(t, err)
				ends := time.Now().Add(20 * ttl)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					switch {
					case req.Op != wire.OpListLocks || time.Now().After(ends) || rnd.IntN(3) > 0:
						return time.Millisecond, false
					case len(req.Cursor) > 0 && rnd.IntN(2) == 0:
						return rand.N(10 * ttl), false
					}
					return rand.N(ttl / 4), false
				})
				s.refuses(func(req *wire.Request) bool {
					return req.Op == wire.OpListLocks && time.Now().Before(ends) && rnd.IntN(6) == 0
				})
				pass(60*ttl + 30*time.Second)
				c.keeper.mu.Lock()
				defer c.keeper.mu.Unlock()
				for _, l := range c.keeper.mu.leases {
					if n := l.asides; n > 1 || (n == 1) != l.checking {
						t.Errorf("TTL %v, %v: %d questions are counted, under way: %v", ttl, l.name, n, l.checking)
					}
				}
			})
		})
	}
}
