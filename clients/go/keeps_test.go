package pathlockd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// repeatOf puts a question of the keeper's among what is to be asked again.
func repeatOf(s *session, op wire.Op, id uint64) *call {
	c := newCall(ignored{})
	c.set(&wire.Request{Op: op, Owner: "me", TTLMillis: 1000, Domains: []string{"a:/b"}})
	s.c.hurry(c, "a:/b")
	c.number(id)
	c.session, c.unheard = s, true
	s.mu.unheard++
	s.sentQueue(c).push(c)
	return c
}

// TestNothingIsSettledBeforeWhatIsAskedAgain: while a renewal is to be asked again its answer is not settled, whatever
// is sent meanwhile.
func TestNothingIsSettledBeforeWhatIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		p.serveAll()
		pass(time.Second)
		s := &c.home.session
		s.mu.Lock()
		defer s.mu.Unlock()
		id := s.mu.lastID + 1
		one := repeatOf(s, wire.OpRenew, id)
		other := newCall(ignored{})
		other.set(&wire.Request{Op: wire.OpRenew, Owner: "you", TTLMillis: 1000, Domains: []string{"a:/b"}})
		other.number(id + 1)
		s.mu.sent.put(other)
		if up := s.settle(other); up > id {
			t.Errorf("answers are settled up to %d, and %d is to be asked again", up, id)
		}
		s.mu.sent.take(id + 1)
		s.mu.keeps.remove(one)
		s.heardOf(one)
	})
}

// TestALookOfAForgottenSessionGoesAhead: a look that is under way as the session is forgotten is asked anew, and goes
// ahead of users' requests as it did; what may have changed something is not asked again.
func TestALookOfAForgottenSessionGoesAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		p.serveAll()
		pass(time.Second)
		s := &c.home.session
		s.mu.Lock()
		defer s.mu.Unlock()
		look, renewal := repeatOf(s, wire.OpListLocks, 1001), repeatOf(s, wire.OpRenew, 1002)
		unknown := s.renounce()
		if len(unknown) != 1 || unknown[0] != renewal {
			t.Errorf("unknown is %v, want the renewal", unknown)
		}
		if look.in != &s.mu.urgent || look.id != 0 {
			t.Errorf("the look has id %d, and does not stand among what goes ahead", look.id)
		}
		look.in.remove(look)
	})
}

// TestRenewalsOfTheProgramLeaveAReserve: very many renewals of the program's are about a log that does not answer. They
// leave the keeper what it renews a lock of another log by.
func TestRenewalsOfTheProgramLeaveAReserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
		var stuck atomic.Int64
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick" {
				stuck.Add(1)
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
				return nil
			}
			return granted(a.req)
		})
		for i := range 2 {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/sick/%d", i), Owner("me"), TTL(time.Hour))
			mustLock(t, l, err)
		}
		l, err := c.TryLock(t.Context(), "a:/well/x", TTL(12*time.Second))
		mustLock(t, l, err)
		for range 900 {
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000, Domains: []string{"a:/sick"}}, nil)
		}
		pass(40 * time.Second)
		if err := l.Err(); err != nil || stuck.Load() < int64(testLimits.InFlight)/2 {
			t.Errorf("beside %d renewals of the program's the lock is lost: %v", stuck.Load(), err)
		}
		pass(4 * time.Minute)
	})
}
