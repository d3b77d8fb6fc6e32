package loop_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// holder is who holds a path, and how much is left of its lease; "" for nobody.
func holder(p *peer, path string) (owner string, left time.Duration) {
	p.t.Helper()
	res := p.must(describe(path))
	if res.List == nil || len(res.List.Infos) == 0 {
		return "", 0
	}
	return res.List.Infos[0].Owner, time.Duration(res.List.Infos[0].ExpiresInMillis) * time.Millisecond
}

// soon is far below the TTL of write, and far above every grace of these tests.
const soon = 10 * time.Second

// TestCrashedClient: a connection that closes ends the leases tied to it within
// their grace, and not before; others it does not touch.
func TestCrashedClient(t *testing.T) {
	t.Parallel()
	const grace = 400 * time.Millisecond
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("crash")
		tied, loose, bound := ns+":/tied/x", ns+":/loose/x", ns+":/bound/x"
		p := joinAs(t, addr, &wire.Hello{Grace: uint64(grace.Milliseconds())})
		p.must(flagged(write(ns+"tied", tied), wire.FlagBind))
		p.must(write(ns+"loose", loose))
		if res := p.ask(&wire.Request{Op: wire.OpBind, Owner: ns + "bound",
			GraceMillis: uint64(2 * grace.Milliseconds())}); res.Code != wire.OK || res.Status != wire.RenewLost {
			t.Errorf("bind of an owner without a lease: %v, %v, want LOST", res.Err(), res.Status)
		}
		p.must(write(ns+"bound", bound))

		other := join(t, addr)
		first := other.start(flagged(write(ns+"next", tied), wire.FlagWait))[0]
		other.push(wire.PushQueued)
		second := other.start(flagged(write(ns+"next", bound), wire.FlagWait))[0]
		other.push(wire.PushQueued)
		closed := time.Now()
		p.hangUp()
		for _, c := range []struct {
			id    uint64
			grace time.Duration
		}{{first, grace}, {second, 2 * grace}} {
			res := other.reply(c.id)
			took := time.Since(closed)
			if res.Code != wire.OK || res.Status != wire.StatusOK || took < c.grace || took > soon {
				t.Errorf("granted %v after the connection closed (%v, %v), want it after %v", took, res.Err(),
					res.Status, c.grace)
			}
		}
		if owner, left := holder(other, loose); owner != ns+"loose" || left < soon {
			t.Errorf("the lease that was not tied: %q, %v left", owner, left)
		}
	})
}

// TestUnbind: what was unbound in time stays.
func TestUnbind(t *testing.T) {
	s := serve(t, loop.Options{})
	ns := named("unbind")
	path := ns + ":/n/x"
	p, other := join(t, s.tcp), join(t, s.tcp)
	p.must(write(ns, path))
	p.must(&wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 1, TTLMillis: 60_000})
	p.must(&wire.Request{Op: wire.OpUnbind, Owner: ns})
	p.hangUp()
	eventually(t, "the connection is gone", func() bool { return s.Connections() == 1 })
	if owner, left := holder(other, path); owner != ns || left < soon {
		t.Errorf("held by %q, %v left", owner, left)
	}
}

// TestReconnect: a session that comes back within the grace, with the next epoch,
// keeps its lease by renewing it.
func TestReconnect(t *testing.T) {
	t.Parallel()
	const grace = 500 * time.Millisecond
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("back")
		path := ns + ":/n/x"
		p := joinAs(t, addr, &wire.Hello{Grace: uint64(grace.Milliseconds())})
		p.must(flagged(write(ns, path), wire.FlagBind))
		session := p.welcome.Session
		p.hangUp()
		back := joinAs(t, addr, &wire.Hello{Session: session, Epoch: 2, Grace: uint64(grace.Milliseconds())})
		back.last = p.last + 10 // ids of a session grow
		closed := time.Now()
		renew := &wire.Request{Op: wire.OpRenew, Owner: ns, TTLMillis: 60_000, Flags: wire.FlagBind}
		back.must(renew)
		other := join(t, addr)
		for time.Since(closed) < 3*grace {
			if owner, left := holder(other, path); owner != ns || left < soon {
				t.Fatalf("%v after it came back: held by %q, %v left", time.Since(closed), owner, left)
			}
		}
		// The lease hangs on the new connection now.
		back.hangUp()
		eventually(t, "the lease ends with the second connection",
			func() bool { owner, _ := holder(other, path); return owner == "" })
	})
}

// TestTakeover: a later connection of a session closes the earlier one, and takes
// its lease and its waits over; an epoch that is not later is refused.
func TestTakeover(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("takeover")
		path, busy := ns+":/n/x", ns+":/m/x"
		holds := join(t, addr)
		holds.must(write("other", busy))
		p := joinAs(t, addr, &wire.Hello{Epoch: 5, Grace: 1})
		p.must(flagged(write(ns, path), wire.FlagBind))
		id := p.start(flagged(write(ns, busy), wire.FlagWait))[0]
		p.push(wire.PushQueued)
		for _, epoch := range []uint64{0, 1, 5} {
			again := dial(t, addr)
			if res := again.greet(&wire.Hello{Session: p.welcome.Session,
				Epoch: epoch}); res.Code != wire.FailedPrecondition || res.Cause != wire.CauseEpoch {
				t.Errorf("epoch %d behind 5: %v", epoch, res.Err())
			}
			again.hangUp()
		}
		p.must(ping())
		next := joinAs(t, addr, &wire.Hello{Session: p.welcome.Session, Epoch: 6, Grace: 1})
		p.endedWith(wire.Aborted, "later connection")
		// It asks again what was not answered, with the old id, and renews.
		next.last = id - 1
		if got := next.start(flagged(write(ns, busy), wire.FlagWait))[0]; got != id {
			t.Fatalf("id %d, want %d", got, id)
		}
		next.last += 10
		next.must(&wire.Request{Op: wire.OpRenew, Owner: ns, TTLMillis: 60_000, Flags: wire.FlagBind,
			Domains: []string{ns + ":/n"}})
		if owner, left := holder(holds, path); owner != ns || left < soon {
			t.Errorf("held by %q, %v left", owner, left)
		}
		holds.must(release("other", busy))
		if res := next.reply(id); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the wait that was taken over: %v, %v", res.Err(), res.Status)
		}
	})
}

// TestTakenOverTie: a lease tied to a connection that a later one of its session took over
// ends with that one, though nothing was asked on it, in whatever order they close.
func TestTakenOverTie(t *testing.T) {
	const grace = 200 * time.Millisecond
	closing := map[string]func(old, next *peer){
		"later one last":     func(old, next *peer) { old.ended(); old.hangUp(); next.hangUp() },
		"later one at once":  func(_, next *peer) { next.hangUp() },
		"both":               func(old, next *peer) { old.hangUp(); next.hangUp() },
		"earlier one before": nil,
	}
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		for name, end := range closing {
			ns := named("tie")
			path := ns + ":/n/x"
			p := joinAs(t, addr, &wire.Hello{Grace: uint64(grace.Milliseconds())})
			p.must(flagged(write(ns, path), wire.FlagBind))
			look := join(t, addr)
			waits := look.start(flagged(write(ns+"next", path), wire.FlagWait))[0]
			look.push(wire.PushQueued)
			if end == nil {
				p.hangUp()
			}
			next := joinAs(t, addr, &wire.Hello{Session: p.welcome.Session, Epoch: 2,
				Grace: uint64(grace.Milliseconds())})
			if end == nil {
				next.hangUp()
			} else {
				end(p, next)
			}
			closed := time.Now()
			if res := look.reply(waits); res.Code != wire.OK || res.Status != wire.StatusOK ||
				time.Since(closed) > soon {
				t.Errorf("%s: granted after %v (%v, %v), want it once the grace of %v was over", name,
					time.Since(closed), res.Err(), res.Status, grace)
			}
			look.must(release(ns+"next", path))
		}
	})
}

// TestTieOfAnotherNode: the connection that a session comes back on ends its leases though
// they were tied elsewhere, and that server died.
func TestTieOfAnotherNode(t *testing.T) {
	const grace = 100 * time.Millisecond
	first, second := serve(t, loop.Options{}), serve(t, loop.Options{})
	ns := named("elsewhere")
	path := ns + ":/n/x"
	p := joinAs(t, first.tcp, &wire.Hello{Grace: uint64(grace.Milliseconds())})
	p.must(flagged(write(ns, path), wire.FlagBind))
	if err := first.Close(); err != nil { // takes nothing from its clients
		t.Fatal(err)
	}
	joinAs(t, second.tcp, &wire.Hello{Session: p.welcome.Session, Epoch: 2}).hangUp()
	closed := time.Now()
	look := join(t, second.tcp)
	eventually(t, "the lease ends", func() bool { owner, _ := holder(look, path); return owner == "" })
	if took := time.Since(closed); took > soon {
		t.Errorf("the lease ended after %v", took)
	}
}

// TestSessionForgotten: the server keeps nothing of a connection that is gone, its
// epoch included.
func TestSessionForgotten(t *testing.T) {
	s := serve(t, loop.Options{})
	p := joinAs(t, s.tcp, &wire.Hello{Epoch: 7})
	p.hangUp()
	eventually(t, "it is gone", func() bool { return s.Connections() == 0 })
	joinAs(t, s.tcp, &wire.Hello{Session: p.welcome.Session, Epoch: 3}).must(ping())
}

// TestRepeat: a request that is sent again on the session's next connection is
// answered and not carried out again.
func TestRepeat(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("repeat")
		path := ns + ":/n/x"
		p := join(t, addr)
		req := write(ns, path)
		id := p.start(req)[0]
		token := p.reply(id).Token
		p.hangUp()
		next := joinAs(t, addr, &wire.Hello{Session: p.welcome.Session, Epoch: 2})
		repeat := func(req *wire.Request) wire.Result {
			t.Helper()
			next.last = id - 1
			return next.reply(next.start(req)[0])
		}
		if res := repeat(req); res.Code != wire.OK || res.Status != wire.StatusOK || res.Token != token {
			t.Errorf("the repeat: %v, %v, token %d, want %d", res.Err(), res.Status, res.Token, token)
		}
		if res := repeat(write(ns, path+"2")); res.Code != wire.InvalidArgument {
			t.Errorf("another request under the same id: %v", res.Err())
		}
		next.last = id + 100
		next.must(release(ns, path))
		next.must(ping())
		// Its locks are gone: it is not carried out twice.
		if res := repeat(req); res.Code != wire.OK || res.Status != wire.StatusLost {
			t.Errorf("the repeat after the release: %v, %v, want LOST", res.Err(), res.Status)
		}
		if owner, _ := holder(join(t, addr), path); owner != "" {
			t.Errorf("held by %q after the repeat", owner)
		}
		// In another session the id is free.
		if res := join(t, addr).must(req); res.Token <= token {
			t.Errorf("token %d after %d", res.Token, token)
		}
	})
}

// TestClosedWaits: a wait ends with its connection, a queued place does not.
func TestClosedWaits(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("gone")
		path := ns + ":/n/x"
		holds, p := join(t, addr), join(t, addr)
		holds.must(write("a", path))
		p.start(flagged(write("waits", path), wire.FlagWait))
		p.push(wire.PushQueued)
		if res := p.ask(write("queued", path)); res.Status != wire.StatusQueued {
			t.Fatalf("status %v", res.Status)
		}
		p.hangUp()
		eventually(t, "the wait ends", func() bool { return holds.must(describe(path)).Count == 1 })
		holds.must(release("a", path))
		if owner, _ := holder(holds, path); owner != "queued" {
			t.Errorf("held by %q, want queued", owner)
		}
	})
}

// TestClosedInFlight: a connection that closes before its acquire is answered has
// its lease ended all the same.
func TestClosedInFlight(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("early")
		look := join(t, addr)
		n, taken := 0, 0
		eventually(t, "some are carried out", func() bool { // their fences show
			for ; n < 1000 && taken == 0; n++ {
				p := dial(t, addr)
				p.start(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1, Grace: 1}},
					flagged(write(fmt.Sprint(ns, n), fmt.Sprintf("%s:/n/%d", ns, n)), wire.FlagBind))
				p.hangUp()
				if n%20 == 19 {
					break
				}
			}
			for i := range n {
				if look.must(&wire.Request{Op: wire.OpInspectPath, Path: fmt.Sprintf("%s:/n/%d", ns, i)}).Flag {
					taken++
				}
			}
			return taken > 0
		})
		eventually(t, "all leases end", func() bool {
			l := look.must(&wire.Request{Op: wire.OpScanLocks, Path: ns}).List
			return l == nil || len(l.Infos) == 0
		})
	})
}

// TestServerStops: a server that goes away is no client that crashed: leases and
// places in the queue stay.
func TestServerStops(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"goodbye", "close"} {
		t.Run(how, func(t *testing.T) {
			const grace = 100 * time.Millisecond
			ns := named("stops")
			path := ns + ":/n/x"
			old, other := serve(t, loop.Options{}), serve(t, loop.Options{})
			p := joinAs(t, old.tcp, &wire.Hello{Grace: uint64(grace.Milliseconds())})
			p.must(flagged(write(ns+"a", path), wire.FlagBind))
			p.start(flagged(write(ns+"b", path), wire.FlagWait|wire.FlagBind))
			p.push(wire.PushQueued)
			if how == "goodbye" {
				old.Goodbye(wire.Errorf(wire.Unavailable, "the node is shutting down"))
				p.endedWith(wire.Unavailable, "shutting down")
			} else {
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				p.ended()
			}
			closed := time.Now()
			look := join(t, other.tcp)
			for time.Since(closed) < 5*grace {
				if owner, left := holder(look, path); owner != ns+"a" || left < soon {
					t.Fatalf("%v after the server closed: held by %q, %v left", time.Since(closed), owner, left)
				}
			}
			if res := look.must(describe(path)); res.Count != 1 {
				t.Errorf("%d wait, want b", res.Count)
			}
			look.must(&wire.Request{Op: wire.OpForceRelease, Owner: ns + "b"})
		})
	}
}
