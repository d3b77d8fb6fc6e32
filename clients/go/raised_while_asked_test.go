package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// slowLists is a server whose answers take 50 ms, and 300 ms those that tell what an owner holds. "me" has a lock
// there, whose events are told by now, and somebody else has "a:/b/z".
func slowLists(t *testing.T) (*Client, *timed) {
	t.Helper()
	c, s := newTimed(t)
	s.takes(always(50*time.Millisecond, map[wire.Op]time.Duration{wire.OpListLocks: 300 * time.Millisecond}))
	x, err := c.TryLock(t.Context(), "a:/b/x", Owner("me"))
	mustLock(t, x, err)
	pass(11 * time.Second)
	if !s.rival("a:/b/z") {
		t.Fatal("this shows nothing")
	}
	return c, s
}

// waitsFor has "me" wait for paths, "a:/b/z" among them, and answers where the lock will be.
func waitsFor(t *testing.T, c *Client, paths ...string) <-chan *Lock {
	t.Helper()
	all := []Path{{Path: "a:/b/z"}}
	for _, p := range paths {
		all = append(all, Path{Path: p})
	}
	queued, got := make(chan struct{}, 9), make(chan *Lock, 1)
	go func() {
		l, err := c.LockAll(t.Context(), all, Owner("me"), OnQueued(func(Queued) { queued <- struct{}{} }))
		got <- mustLock(t, l, err)
	}()
	<-queued
	return got
}

// TestTwoRaisedByAnEarlierWait: "me" waits for three paths, and takes two of them meanwhile, at once: the second one
// comes while the client asks about the first, which may be refused. The wait is granted, which raises the tokens of
// both. Nothing is given back, and all is held.
func TestTwoRaisedByAnEarlierWait(t *testing.T) {
	for name, refused := range map[string]bool{"answered": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := slowLists(t)
				got := waitsFor(t, c, "a:/b/d", "a:/b/e")
				if refused {
					s.refusesOneLook(350 * time.Millisecond)
				}
				ones := make(chan *Lock, 2)
				for _, p := range []string{"a:/b/d", "a:/b/e"} {
					go func() {
						l, err := c.TryLock(t.Context(), p, Owner("me"))
						ones <- mustLock(t, l, err)
					}()
					pass(time.Millisecond)
				}
				pass(4 * time.Second)
				s.rivalGives("a:/b/z")
				all, d, e := <-got, <-ones, <-ones
				pass(20 * time.Second)
				s.isHeld(all)
				s.isHeld(d)
				s.isHeld(e)
			})
		})
	}
}

// refusesOneLook has the next answer to what an owner holds be that the server is too busy, after a time.
func (s *timed) refusesOneLook(after time.Duration) {
	first := true
	s.refuses(func(req *wire.Request) bool {
		if req.Op != wire.OpListLocks || !first {
			return false
		}
		first = false
		time.Sleep(after)
		return true
	})
}

// TestRaisedByAnEarlierWaitBesideALook: the same of one lock, which comes while a look is under way for another one.
func TestRaisedByAnEarlierWaitBesideALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := slowLists(t)
		got := waitsFor(t, c, "a:/b/e")
		pass(20600*time.Millisecond - time.Since(s.start)) // a renewal is about to be sent
		y, err := c.TryLock(t.Context(), "a:/b/y", Owner("me"))
		mustLock(t, y, err)
		for !y.isLookedAt() {
			pass(time.Millisecond)
		}
		e, err := c.TryLock(t.Context(), "a:/b/e", Owner("me"))
		mustLock(t, e, err)
		if !e.isLookedAt() {
			t.Fatal("the look is over: this shows nothing")
		}
		pass(4 * time.Second)
		s.rivalGives("a:/b/z")
		all := <-got
		pass(15 * time.Second)
		s.isHeld(all)
		s.isHeld(e)
	})
}

func (l *Lock) isLookedAt() bool {
	l.c.keeper.mu.Lock()
	defer l.c.keeper.mu.Unlock()
	return l.lease != nil && l.lease.looking
}
