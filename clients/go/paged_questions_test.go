package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// underWay says whether a question about a lock beside the renewals is under way, whether a renewal needs a look by
// now, and when the next such question is due.
func underWay(c *Client, l *Lock) (checking, uncertain bool, next time.Duration) {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	return l.lease.checking, l.lease.uncertain(), l.lease.checkAt
}

// TestPagesInTheirTurns: what an owner holds is told in two pages at once, but each page waits in the client for its
// turn, as other questions take long. That it waited says nothing of how long it takes to tell: the next question is
// due within two TTLs.
func TestPagesInTheirTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		c, s := newTimed(t, WithBacklog(1024))
		manyBefore(t, c, 600)
		l, err := c.TryLock(context.Background(), "a:/b/c", Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		_, stop := s.gaps(t, c, mostListed+8, time.Millisecond, 500*time.Millisecond, time.Hour)
		defer stop()
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && req.Owner != "me" {
				return 1500 * time.Millisecond, false
			}
			return time.Millisecond, false
		})
		pass(2 * ttl)
		waited := 0
		for range 10 {
			for checking := false; !checking; checking, _, _ = underWay(c, l) {
				pass(10 * time.Millisecond)
			}
			asked, checking, next := c.now(), true, time.Duration(0)
			for checking {
				pass(10 * time.Millisecond)
				must(t, l.Err())
				checking, _, next = underWay(c, l)
			}
			if c.now()-asked > 2*time.Second {
				waited++
			}
			if due := next - asked; due > busyTTLs*ttl {
				t.Errorf("asked again after %v", due)
			}
		}
		if waited == 0 {
			t.Error("this shows nothing: no question waited")
		}
	})
}

// TestManyPagesAreAnswers: what an owner holds is told in so many pages that all of them take longer than a TTL, and
// each of them comes soon. That is no question without an answer: no renewal needs a look for it.
func TestManyPagesAreAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		c, s := newTimed(t)
		manyBefore(t, c, 5000)
		l, err := c.TryLock(context.Background(), "a:/b/c", Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		s.takes(always(time.Millisecond, nil))
		pass(10 * ttl)
		s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpListLocks: ttl / 5}))
		var since, longest time.Duration // of the question that is under way
		for range 10 * 60 * 5 {
			pass(100 * time.Millisecond)
			must(t, l.Err())
			checking, uncertain, _ := underWay(c, l)
			switch {
			case !checking:
				since = 0
			case since == 0:
				since = c.now()
			default:
				longest = max(longest, c.now()-since)
			}
			if checking && uncertain {
				t.Fatalf("a page came each %v, and a renewal needs a look", ttl/5)
			}
		}
		if longest <= ttl {
			t.Errorf("this shows nothing: the longest question took %v", longest)
		}
	})
}
