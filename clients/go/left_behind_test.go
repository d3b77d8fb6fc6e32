package pathlockd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTwoRenewals: a program asks for a renewal for 5 s, then for a lock of the same owner, then for a renewal for
// 600 s, while its window is full. The last goes ahead, as it is about a lock that is kept, and the first before it.
func TestTwoRenewals(t *testing.T) {
	for name, before := range map[string]bool{"a lock from the start": true,
		"the lock is asked for between them": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
				var ttls []uint64
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Owner == "sick" {
						time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
						return nil
					}
					if a.req.Owner == "me" && a.req.Op == wire.OpRenew && a.req.Flags == 0 {
						ttls = append(ttls, a.req.TTLMillis)
					}
					return granted(a.req)
				})
				if before {
					l, err := c.TryLock(t.Context(), "a:/b/first", Owner("me"), TTL(time.Hour))
					mustLock(t, l, err)
				}
				pass(2 * time.Second)
				asksSick(c, 300)
				pass(time.Millisecond)
				c.Go(renewalFor(5_000), nil)
				go func() {
					l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
					mustLock(t, l, err)
				}()
				pass(time.Millisecond)
				c.Go(renewalFor(600_000), nil)
				pass(2 * time.Minute)
				if !slices.Equal(ttls, []uint64{5_000, 600_000}) {
					t.Errorf("the server got %v", ttls)
				}
			})
		})
	}
}

// TestWaitBehindARenewalThatGoesAhead: a wait of an owner's stands behind a renewal of it, both of which have no
// room. A later renewal of it goes ahead, and the first one with that, in the order in which they were asked: the
// wait still goes behind it.
func TestWaitBehindARenewalThatGoesAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
		var got []string
		var stuck []*asked
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case a.req.Owner == "sick", a.req.Owner == "other" && a.req.Op == wire.OpRenew && a.req.Flags == 0:
				stuck = append(stuck, a)
				return nil
			case a.req.Owner == "me" && a.req.Op == wire.OpRenew && a.req.Flags == 0:
				got = append(got, fmt.Sprint("renew ", a.req.TTLMillis))
			case a.req.Owner == "me" && a.req.Flags&wire.FlagWait != 0:
				got = append(got, "wait")
			}
			return granted(a.req)
		})
		l, err := c.TryLock(t.Context(), "a:/sick/x", Owner("other"), TTL(100*time.Hour))
		mustLock(t, l, err)
		pass(2 * time.Second)
		others := func() {
			c.Go(&wire.Request{Op: wire.OpRenew, Owner: "other", TTLMillis: 360_000_000, Domains: []string{"a:/sick"}},
				nil)
		}
		asksSick(c, 240)
		for range 8 {
			others()
		}
		pass(time.Millisecond)
		c.Go(renewalFor(5_000), nil)
		c.Go(waitFor("me", "a:/b/x"), nil)
		others()
		go c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		pass(time.Millisecond)
		c.Go(renewalFor(600_000), nil)
		pass(time.Millisecond)
		if len(got) != 0 {
			t.Errorf("without room the server got %v", got)
		}
		for range 2 {
			for _, a := range stuck {
				p.ok(a)
			}
			stuck = nil
			pass(time.Second)
		}
		if len(got) != 3 || got[0] != "renew 5000" { // the wait and the other renewal go by rules of their own
			t.Errorf("the server got %v", got)
		}
	})
}

// yielding is a client whose users' requests are stuck and fill their part of the window, as do two renewals of its
// own: what else goes ahead yields. It counts what the server answered of namespaces, and answers the two when told
// to.
func yielding(t *testing.T) (c *Client, renew func(ns string), came map[string]int, answer func()) {
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
	var stuck []*asked
	came = make(map[string]int)
	go p.serve(func(a *asked) *wire.Result {
		switch {
		case a.req.Owner == "sick":
			return nil
		case a.req.Op == wire.OpRenew && a.req.Domains[0] == "a:/sick" && a.req.Flags == 0:
			stuck = append(stuck, a)
			came["stuck"]++
			return nil
		}
		came[a.req.Owner]++
		return granted(a.req)
	})
	for _, path := range []string{"a:/well/mine", "a:/sick/mine"} {
		l, err := c.TryLock(t.Context(), path, Owner("me"), TTL(100*time.Hour))
		mustLock(t, l, err)
	}
	pass(2 * time.Second)
	asksSick(c, 239)
	pass(time.Millisecond)
	renew = func(ns string) {
		c.Go(&wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 360_000_000, Domains: []string{ns}}, nil)
		pass(time.Microsecond)
	}
	for range 300 { // more than a window
		renew("a:/well")
	}
	renew("a:/sick")
	renew("a:/sick")
	pass(time.Millisecond)
	if came["stuck"] != 2 {
		t.Fatal("this shows nothing", came)
	}
	return c, renew, came, func() {
		for _, a := range stuck {
			p.ok(a)
		}
	}
}

// TestWaitBehindWhatYielded: a renewal yields to a release that was asked before it, and goes behind it once there is
// room. A wait that was asked behind the renewal goes at once then.
func TestWaitBehindWhatYielded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, renew, came, answer := yielding(t)
		asksSick(c, 1)
		renew("a:/sick")
		c.Go(waitFor("else", "a:/well/x"), nil)
		pass(time.Millisecond)
		if came["else"] != 0 || came["stuck"] != 2 {
			t.Fatal("this shows nothing", came)
		}
		answer()
		pass(time.Second)
		if came["else"] != 1 || came["stuck"] != 3 {
			t.Errorf("the server got %v", came)
		}
	})
}

// TestWhatIsYieldedToLeaves: the caller of the release that a renewal yields to goes. The renewal goes at once then.
func TestWhatIsYieldedToLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, renew, came, _ := yielding(t)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- c.Release(ctx, "sick", []wire.ReleaseRequest{{Path: "a:/sick/x"}}, false, "") }()
		pass(time.Millisecond)
		before := came["me"]
		renew("a:/well")
		pass(time.Millisecond)
		if came["me"] != before {
			t.Fatal("this shows nothing")
		}
		leave()
		if err := <-left; err == nil {
			t.Fatal("it was answered")
		}
		pass(time.Second)
		if came["me"] != before+1 {
			t.Error("what it yields to is gone, and the renewal is not sent")
		}
	})
}

// TestWhatIsYieldedToGoesElsewhere: the release that a renewal yields to is taken back by its way, which leads to
// another node by now. The renewal goes at once then.
func TestWhatIsYieldedToGoesElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, renew, came, _ := yielding(t)
		asksSick(c, 1)
		before := came["me"]
		renew("a:/well")
		pass(time.Millisecond)
		s, w := &c.home.session, new(way)
		s.mu.Lock()
		first := s.mu.normal.first
		first.way, first.counts = w, w
		s.mu.Unlock()
		if came["me"] != before {
			t.Fatal("this shows nothing")
		}
		if back := s.recall(w); len(back) != 1 || back[0] != first {
			t.Fatalf("%d are taken back", len(back))
		}
		pass(time.Second)
		if came["me"] != before+1 {
			t.Error("what it yields to is gone, and the renewal is not sent")
		}
	})
}

// askedAgain is a client with a release that is to be asked again under its id, and has no room: users' requests are
// stuck and fill their part of the window. What the owner "me" asks is answered after 10 ms. It counts what came, by
// owners; leave has the caller of the release go.
func askedAgain(t *testing.T, backlog int) (c *Client, came map[string]int, leave func()) {
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace), WithBacklog(backlog))
	came = make(map[string]int)
	go p.serve(func(a *asked) *wire.Result {
		came[a.req.Owner]++
		switch a.req.Owner {
		case "sick":
			return nil
		case "other":
			if came["other"] == 1 {
				time.AfterFunc(time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
			}
			return nil
		case "me":
			time.AfterFunc(10*time.Millisecond, func() { p.ok(a) })
			return nil
		}
		return granted(a.req)
	})
	l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(100*time.Hour))
	mustLock(t, l, err)
	pass(2 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.Release(ctx, "other", []wire.ReleaseRequest{{Path: "a:/sick/x"}}, false, "")
	}()
	pass(time.Millisecond)
	asksSick(c, 240)
	pass(3 * time.Second)
	return c, came, func() {
		cancel()
		<-left
	}
}

// TestWhatIsAskedAgainLeaves: a wait, which takes no room, stands behind what is to be asked again. The caller of
// that goes: the wait goes at once then.
func TestWhatIsAskedAgainLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, came, leave := askedAgain(t, 1024)
		c.Go(waitFor("else", "a:/well/x"), nil)
		pass(time.Second)
		if came["else"] != 0 {
			t.Fatal("this shows nothing")
		}
		leave()
		pass(time.Second)
		if came["else"] != 1 {
			t.Error("what is in its way is gone, and the wait is not sent")
		}
	})
}

// TestBatchBesideWhatIsAskedAgain: renewals that go ahead filled the backlog, and were sent and answered since: a
// batch that waits for room in the backlog goes on, whatever is to be asked again.
func TestBatchBesideWhatIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _, leave := askedAgain(t, 32)
		for range 60 {
			c.Go(renewalFor(360_000_000), nil)
		}
		b := c.Batch()
		if err := b.Add(renewalFor(360_000_000), nil); err != nil {
			t.Fatal(err)
		}
		ctx, over := context.WithTimeout(t.Context(), 20*time.Second)
		defer over()
		sent := make(chan error, 1)
		go func() { sent <- b.Send(ctx) }()
		pass(10 * time.Second)
		select {
		case err := <-sent:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the batch is not sent after 10 s")
		}
		leave()
	})
}
