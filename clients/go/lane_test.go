package pathlockd

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALaneThatLosesItsNode: its session goes on elsewhere at once and settles what is
// open; what is new goes by other lanes, and directly again when the node is back.
func TestALaneThatLosesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 0, 1, 2, 2)
		c := f.client()
		f.warm(c)
		answer := false
		f.serve = func(_ *peer, a *asked) *wire.Result {
			if a.req.Owner == "open" && !answer {
				return nil
			}
			return granted(a.req)
		}
		open := doing(context.Background(), c, &wire.Request{Op: wire.OpRelease, Owner: "open",
			Releases: []wire.ReleaseRequest{{Path: in(1)}}})
		pass(0)
		before := f.last(wire.OpRelease)
		if before.node != "n1" {
			t.Fatalf("it went to %s", before.node)
		}
		answer = true
		f.kill("n1")
		must(t, (<-open).err)
		after := f.last(wire.OpRelease)
		if after.node == "n1" || after.session != before.session || after.id != before.id {
			t.Fatalf("request %d was asked again as %d at %s, same session: %v", before.id, after.id, after.node,
				after.session == before.session)
		}
		pass(0)
		if f.goes(c, 1) == "n1" || f.last(wire.OpRelease).session == before.session {
			t.Fatal("a new request went by the lane that lost its node")
		}
		f.lead(0, 2, 2, 2)
		f.tell()
		pass(0)
		if n := f.goes(c, 1); n != "n2" {
			t.Fatalf("the group went to %s, not to its new leader", n)
		}
		f.revive("n1")
		f.lead(0, 1, 2, 2)
		f.tell()
		pass(0)
		f.goes(c, 1)
		pass(0)
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("the group went to %s after its leader came back", n)
		}
		pass(2 * idleLane)
		if n := len(c.router.all()); n != 3 {
			t.Fatalf("%d lanes, want one for each node", n)
		}
	})
}

// TestLocksOutliveALane: a lock taken by a lane is renewed elsewhere in time when the
// lane is lost, and is not lost.
func TestLocksOutliveALane(t *testing.T) {
	for name, lose := range map[string]func(*fakeCluster){
		"cut":  func(f *fakeCluster) { f.cut("n1") },
		"dead": func(f *fakeCluster) { f.kill("n1") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 1, 0, 0)
				c := f.client(WithGrace(time.Second))
				f.warm(c)
				held, err := c.Lock(context.Background(), in(1))
				must(t, err)
				other, err := c.Lock(context.Background(), in(0))
				must(t, err)
				if n := f.last(wire.OpAcquire).node; n != "n0" {
					t.Fatalf("the other lock was asked for at %s", n)
				}
				sure := other.Deadline()
				lose(f)
				pass(100 * time.Millisecond)
				renewed := f.last(wire.OpRenew)
				if renewed.asked == nil || renewed.req.Owner != held.Owner() || renewed.req.Flags&wire.FlagBind == 0 {
					t.Fatalf("renewed: %+v of %v", renewed.asked, f.arrived)
				}
				if !other.Deadline().Equal(sure) {
					t.Fatal("a lock of another lane lost time")
				}
				pass(5 * time.Second)
				must(t, held.Err())
				must(t, other.Err())
				must(t, held.Unlock())
				must(t, other.Unlock())
			})
		})
	}
}

// TestADeadLaneThatCannotGoOnLosesItsLocks: and those alone.
func TestALaneWithoutAnywhereToGoLosesItsLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 1, 0, 0)
		c := f.client(WithGrace(time.Second))
		f.warm(c)
		held, err := c.Lock(context.Background(), in(1))
		must(t, err)
		other, err := c.Lock(context.Background(), in(0))
		must(t, err)
		f.serve = func(_ *peer, a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && a.req.Owner == held.Owner() {
				return nil
			}
			return granted(a.req)
		}
		f.cut("n1") // it lives, so it may end leases
		pass(time.Second)
		if err := held.Err(); !IsLost(err) {
			t.Fatalf("got %v, want that it is lost", err)
		}
		must(t, other.Err())
		must(t, other.Unlock())
	})
}

// TestWhatIsOpenOnALostLane: an unanswered request may have tied its owner's lease to a
// connection that is gone, whatever other connections confirm.
func TestWhatIsOpenOnALostLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const grace = time.Second
		f := newFakeCluster(t, 2, 0, 1, 0, 0)
		down := false
		c := f.client(WithGrace(grace), WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down {
				return nil, errUnreachable
			}
			return f.dial(ctx, network, addr)
		}))
		f.warm(c)
		wanted := in(1) + "/wanted"
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Op == wire.OpAcquire && a.req.Locks[0].Path == wanted {
				p.send(wire.AppendQueued(nil,
					&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				return nil
			}
			return granted(a.req)
		}
		held, err := c.Lock(context.Background(), in(1), Owner("o"), TTL(time.Second))
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go c.Lock(ctx, wanted, Owner("o"), TTL(time.Second))
		pass(0)
		f.lead(0, 0, 0, 0)
		f.tell()
		pass(2 * time.Second)
		must(t, held.Err())
		if n := f.last(wire.OpRenew).node; n != "n0" {
			t.Fatalf("renewed by %s", n)
		}
		down = true
		broke := time.Now()
		f.cut("n1")
		lostAt(t, held, broke.Add(grace-margin(grace)), ErrUncertain)
	})
}

// TestALaneStaysForItsLeases though nothing is sent by it any more: they hang on its
// connection until they are renewed.
func TestALaneStaysForItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 1, 0, 0)
		c := f.client()
		c.keeper.watch(0) // which would have it renewed
		f.warm(c)
		held, err := c.Lock(context.Background(), in(1), TTL(time.Hour))
		must(t, err)
		f.lead(0, 0, 0, 0)
		f.tell()
		pass(3 * idleLane)
		if n := len(c.router.all()); n != 2 {
			t.Fatalf("%d lanes while a lease hangs on the second", n)
		}
		must(t, held.Unlock())
		pass(3 * idleLane)
		if n := len(c.router.all()); n != 1 {
			t.Fatalf("%d lanes after it was unlocked", n)
		}
	})
}

// TestASessionWaitsForRepeats: while a caller pauses before it repeats a request under its id, the session is not
// over: in no other one is the request known.
func TestASessionWaitsForRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		done := make(chan error, 1)
		go func() { done <- c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: "a:/b"}}, false, "") }()
		first := p.want(wire.OpRelease)
		p.refuse(first, wire.DeadlineExceeded)
		synctest.Wait() // no time goes by
		if s := &c.home.session; s.empty() || s.retire(s.changes()) {
			t.Fatal("the session is over while a request of it is about to be repeated")
		}
		again := p.want(wire.OpRelease)
		if again.id != first.id {
			t.Fatalf("repeated as %d, want %d", again.id, first.id)
		}
		p.ok(again)
		must(t, <-done)
		if !c.home.session.empty() {
			t.Fatal("the session has calls")
		}
	})
}
