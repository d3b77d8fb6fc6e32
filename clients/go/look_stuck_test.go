package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRaisedAfterARefusedQuestion: a lock is taken while an earlier LockAll waits for its path; the one question about
// it is refused (a second without a leader). The wait is granted minutes later. Nothing is given back, and nothing is
// lost.
func TestRaisedAfterARefusedQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(50*time.Millisecond, nil))
		x := hours(t, c, "a:/b/x")
		pass(11 * time.Second)
		if !s.rival("a:/b/z") {
			t.Fatal("this shows nothing")
		}
		got := waitsFor(t, c, "a:/b/d")
		s.refuses(func(req *wire.Request) bool {
			if req.Op == wire.OpListLocks {
				time.Sleep(2 * time.Millisecond)
				return true
			}
			return false
		})
		d := hours(t, c, "a:/b/d")
		pass(time.Second)
		s.refuses(nil)
		pass(5 * time.Minute)
		s.isHeld(d)
		s.rivalGives("a:/b/z")
		all := <-got
		for range 3600 {
			pass(time.Second)
			s.isHeld(all)
			s.isHeld(x)
			if s.isHeld(d); t.Failed() {
				return
			}
		}
	})
}

// TestQuestionUnanswered: what the owner holds is told late, while renewals are answered at once. Another client of the
// owner gives the short lock back. It is believed in for two of its TTLs at most, as when the question is refused.
func TestQuestionUnanswered(t *testing.T) {
	for _, late := range []time.Duration{30 * time.Second, 24 * time.Hour} {
		t.Run(late.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				hours(t, c, "a:/b/c")
				pass(5 * time.Second)
				l := briefly(t, c, "a:/b/d")
				pass(10 * time.Second)
				must(t, l.Err())
				s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpListLocks: late}))
				pass(3 * time.Second)
				believedIn(t, s, l)
			})
		})
	}
}

// believedIn has another client of its owner give a short lock back, and a rival take the path.
func believedIn(t *testing.T, s *timed, l *Lock) {
	t.Helper()
	s.other(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/d"}}})
	if !s.rival("a:/b/d") {
		t.Fatal("this shows nothing")
	}
	pass(2 * l.TTL())
	if l.Err() == nil {
		began := time.Now()
		for l.Err() == nil && time.Since(began) < 2*time.Hour {
			pass(time.Second)
		}
		t.Errorf("a rival has the path; after two TTLs it is believed in for %v more", time.Since(began))
	}
}

// TestPlacesForListings: four logs lose their leaders: what is asked of them is answered after 30 s. The program lists
// what one of them holds four times; the client's looks at the others are under way. A fifth log, of the short lock, is
// well. As before.
func TestPlacesForListings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		ctx := context.Background()
		hours(t, c, "a:/b/c")
		pass(5 * time.Second)
		l := briefly(t, c, "a:/b/d")
		pass(10 * time.Second)
		must(t, l.Err())
		stuck := func(of string) bool { return strings.HasPrefix(of, "a:/s") }
		listed := 0
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && stuck(req.Domains[0]) {
				listed++
				return 30 * time.Second, false
			}
			return time.Millisecond, false
		})
		for i, p := range []string{"a:/s1/x", "a:/s1/y", "a:/s2/x", "a:/s3/x"} {
			x, err := c.TryLock(ctx, p, Owner(fmt.Sprint("p", i)), TTL(time.Hour))
			mustLock(t, x, err)
		}
		for range 4 {
			go func() { _, _, _ = c.ListOwnerLocks(ctx, "p0", "a:/s0") }()
		}
		pass(4 * time.Second)
		if listed < 8 {
			t.Fatal("this shows nothing")
		}
		must(t, l.Err())
		believedIn(t, s, l)
	})
}

// TestLaneOverBeforeNamed: a lock of an owner of its own was taken by a lane whose node has lost the lead, long before
// the program asks in the owner's name. It stays for as long as the lock: Unlock may have to name the request that took
// it.
func TestLaneOverBeforeNamed(t *testing.T) {
	for name, before := range map[string]bool{"named before": true, "named after": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				f.serve = func(_ *peer, a *asked) *wire.Result { return granted(a.req) }
				l, err := c.TryLock(context.Background(), in(0), TTL(6*time.Second))
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire)
				if before {
					c.Go(takesPath(l.Owner(), in(0)+"/q"), nil)
				}
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(15 * time.Second)
				must(t, l.Err())
				pass(3 * idleLane)
				if !before {
					c.Go(takesPath(l.Owner(), in(0)+"/q"), nil)
					pass(time.Second)
				}
				must(t, l.Unlock())
				pass(time.Second)
				r := f.last(wire.OpRelease)
				if r.req.Target != by.id || r.session != by.session {
					t.Errorf("the last release names token %d and request %d, want request %d", r.req.Token,
						r.req.Target, by.id)
				}
			})
		})
	}
}

// TestRefusedPageIsNoAnswer: what the owner holds is told as too much, page by page and each time after 2.5 s. The
// smaller page that is asked for then has had no answer since the first one was.
func TestRefusedPageIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		p.lists = true
		s := &timed{
			t: t, start: time.Now(), p: p, state: engine.New(engine.DefaultConfig(), nil, nil),
			routes: wire.NewRoutes(1, 1, nil), done: make(map[uint64]wire.Result),
		}
		on := make(chan struct{})
		go p.serve(func(a *asked) *wire.Result {
			select {
			case <-on:
				if a.req.Op == wire.OpListLocks {
					time.AfterFunc(2500*time.Millisecond, func() {
						p.reply(a.id, a.req.Op, &wire.Result{Code: wire.ResourceExhausted, Message: "too much"})
					})
					return nil
				}
			default:
			}
			return s.take(a)
		})
		s.takes(always(time.Millisecond, nil))
		hours(t, c, "a:/b/c")
		pass(5 * time.Second)
		l := briefly(t, c, "a:/b/d")
		pass(10 * time.Second)
		must(t, l.Err())
		close(on)
		pass(3 * time.Second)
		believedIn(t, s, l)
	})
}

// placesAreTaken has listings that take 30 s take all places that a log has, by what the client asks itself, or those
// of the program.
func placesAreTaken(t *testing.T, c *Client, s *timed, programs bool) {
	t.Helper()
	s.takes(func(req *wire.Request) (time.Duration, bool) {
		if req.Op == wire.OpListLocks && req.Owner[0] == 'p' {
			return 30 * time.Second, false
		}
		return time.Millisecond, false
	})
	const owners = mostListed + 4
	for i := range owners {
		owner := fmt.Sprint("p", i)
		if programs {
			go func() { _, _, _ = c.ListOwnerLocks(context.Background(), owner, "a:/b") }()
			continue
		}
		for _, name := range []string{"x", "y"} {
			x, err := c.TryLock(context.Background(), fmt.Sprintf("a:/b/%s%d", name, i), Owner(owner), TTL(time.Hour))
			mustLock(t, x, err)
		}
	}
}

// TestHealthyBesideStuckListings: as TestPlacesForListings, but nothing is given back. A lock of which no part can go,
// as it is one path of an owner that the client made up, needs no look, and stays.
func TestHealthyBesideStuckListings(t *testing.T) {
	for _, programs := range []bool{true, false} {
		t.Run(fmt.Sprint("the program's listings ", programs), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				l, err := c.TryLock(context.Background(), "a:/b/c", TTL(6*time.Second))
				mustLock(t, l, err)
				pass(15 * time.Second)
				must(t, l.Err())
				placesAreTaken(t, c, s, programs)
				for range 30 {
					pass(time.Second)
					if s.isHeld(l); t.Failed() {
						return
					}
				}
			})
		})
	}
}

// TestMadeUpOwnerIsGivenBackInPart: an operator gives back one path of a lock of two, whose owner the client made up,
// and another owner takes it, while the question beside the renewals has no answer. The lock is believed in for three
// TTLs at most.
func TestMadeUpOwnerIsGivenBackInPart(t *testing.T) {
	for name, stuck := range map[string]func(t *testing.T, c *Client, s *timed){
		"the program's listings": func(t *testing.T, c *Client, s *timed) { placesAreTaken(t, c, s, true) },
		"the client's questions": func(t *testing.T, c *Client, s *timed) { placesAreTaken(t, c, s, false) },
		"no answer to any": func(_ *testing.T, _ *Client, s *timed) {
			s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpListLocks: 24 * time.Hour}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}},
					TTL(6*time.Second))
				mustLock(t, l, err)
				pass(15 * time.Second)
				must(t, l.Err())
				stuck(t, c, s)
				pass(5 * time.Second)
				must(t, l.Err())
				gives := []wire.ReleaseRequest{{Path: "a:/b/d"}}
				s.other(&wire.Request{Op: wire.OpRelease, Owner: l.Owner(), Releases: gives})
				if !s.rival("a:/b/d") {
					t.Fatal("this shows nothing")
				}
				pass(3 * l.TTL())
				if l.Err() == nil {
					t.Errorf("another owner has a path of the lock for %v, and it is believed in", 3*l.TTL())
				}
			})
		})
	}
}

// TestQuestionRefusedBesideARenewal: a lock is taken while an earlier LockAll waits for its path. The question about it
// is refused while a renewal is under way that was asked before it came. It is asked again, and nothing is lost.
func TestQuestionRefusedBesideARenewal(t *testing.T) {
	refusals := 1
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			switch req.Op {
			case wire.OpRenew:
				return time.Second, false
			case wire.OpAcquire:
				return 500 * time.Millisecond, false
			}
			return 50 * time.Millisecond, false
		})
		x := hours(t, c, "a:/b/x")
		pass(11 * time.Second)
		if !s.rival("a:/b/z") {
			t.Fatal("this shows nothing")
		}
		got := waitsFor(t, c, "a:/b/d")
		pass(30 * time.Minute)
		k := &c.keeper
		k.mu.Lock()
		at := k.mu.leases[x.lease.name].renewAt
		k.mu.Unlock()
		pass(at - c.now() - 100*time.Millisecond) // a tenth of a second before it is to be renewed
		s.refuses(func(req *wire.Request) bool {
			if req.Op == wire.OpListLocks && refusals > 0 {
				refusals--
				time.Sleep(2 * time.Millisecond)
				return true
			}
			return false
		})
		dl, err := c.Lock(t.Context(), "a:/b/d", Owner("me"), TTL(2*time.Hour))
		d := mustLock(t, dl, err)
		pass(5 * time.Minute)
		s.isHeld(d)
		s.rivalGives("a:/b/z")
		all := <-got
		for range 3600 {
			pass(time.Second)
			s.isHeld(all)
			s.isHeld(x)
			if s.isHeld(d); t.Failed() {
				return
			}
		}
	})
}
