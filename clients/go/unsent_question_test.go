package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// missesEventsOf has events of one owner be missed.
func missesEventsOf(t testing.TB, c *Client, s *timed, owner string) {
	t.Helper()
	c.subs.mu.Lock()
	var ids []uint64
	for id, sub := range c.subs.mu.known {
		if sub.owner == owner {
			ids = append(ids, id)
		}
	}
	c.subs.mu.Unlock()
	if len(ids) == 0 {
		t.Fatalf("%s is not watched", owner)
	}
	for _, id := range ids {
		s.peer().send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: id}))
	}
}

func questionOf(c *Client, l *Lock) (looking, sent bool, upTo, joined int) {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	le := l.lease
	if le == nil || le.asks == nil {
		return le != nil && le.looking, false, 0, 0
	}
	return le.looking, le.asks.sent.Load(), le.asks.upTo, le.joined
}

// TestGapBehindAnUnsentLook: a question about a lease waits in the client for its turn. A second lock of the owner
// comes to the lease, which that question is not about. Then the owner is killed, and that is missed: a gap is told.
// The doubt is skipped, as the question has not been sent; but it does not tell of the second lock.
func TestGapBehindAnUnsentLook(t *testing.T) {
	for _, second := range []bool{true, false} {
		t.Run(fmt.Sprint("second lock ", second), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const stuckFor = 8 * time.Second
				c, s := newUntold(t)
				_, stop := s.gaps(t, c, mostListed+4, 0, 10*time.Hour, 10*time.Hour)
				defer stop()
				first := hours(t, c, "a:/b/c")
				pass(time.Minute)
				stuck := time.Now().Add(stuckFor)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpListLocks && req.Owner != "me" {
						return max(0, time.Until(stuck)), false
					}
					return time.Millisecond, false
				})
				missed, _ := s.missed(c)
				missed()
				pass(100 * time.Millisecond)
				missesEventsOf(t, c, s, "me")
				pass(100 * time.Millisecond)
				if looking, sent, _, _ := questionOf(c, first); !looking || sent {
					t.Fatalf("this shows nothing: looking %v, sent %v", looking, sent)
				}
				l, path := first, "a:/b/c"
				if second {
					path = "a:/b/d"
					var err error
					l, err = c.TryLock(context.Background(), path, Owner("me"), TTL(time.Hour))
					mustLock(t, l, err)
				}
				pass(100 * time.Millisecond)
				s.other(&wire.Request{Op: wire.OpForceRelease, Owner: "me"}) // which is missed
				if !s.rival(path) {
					t.Fatal("this shows nothing: the rival has it not")
				}
				missesEventsOf(t, c, s, "me")
				began := time.Now()
				for l.Err() == nil && time.Since(began) < 2*time.Hour {
					pass(100 * time.Millisecond)
				}
				if d := time.Since(began); d > stuckFor+2*askedWithin {
					t.Errorf("events were missed, nothing is refused, the questions of others took %v: a rival has "+
						"the path, and it was believed in for %v\n%s", stuckFor, d, s.happened())
				}
			})
		})
	}
}

// TestTwoQuestionsNeverAnswered: two questions beside the renewals are
// never answered, all later ones are. A path is given back by another client: that is found out.
func TestTwoQuestionsNeverAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		c, s := newTimed(t)
		l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		s.takes(always(time.Millisecond, nil))
		pass(time.Minute)
		var hung atomic.Int64
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && hung.Load() < 2 {
				c.keeper.mu.Lock()
				aside := l.lease != nil && !l.lease.looking
				c.keeper.mu.Unlock()
				if aside {
					hung.Add(1)
					return 24 * time.Hour, false
				}
			}
			return time.Millisecond, false
		})
		for hung.Load() < 2 {
			pass(time.Second)
		}
		pass(10 * time.Minute)
		must(t, l.Err())
		if d := believedFor(t, s, l, "a:/b/d"); d > 3*ttl+time.Second {
			t.Errorf("a rival has the path, and it was believed in for %v", d)
		}
	})
}
