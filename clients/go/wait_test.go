package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Acquires that wait, against a server that does what a test says.

// waiting is an acquire that waits in the queue for so long.
func waiting(queue time.Duration) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: "o", TTLMillis: 30_000, QueueTTLMillis: millis(queue), Flags: wire.FlagWait,
		Locks: []wire.LockRequest{{Path: "a:/b/c", Mode: wire.ModeRead}},
	}
}

func TestEndedWaitIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		done := doing(ctx, c, waiting(0))
		a := p.want(wire.OpAcquire)
		cancel()
		if err := (<-done).err; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		stop := p.want(wire.OpCancel)
		if stop.req.Target != a.id {
			t.Fatalf("cancelled %d, want %d", stop.req.Target, a.id)
		}
		p.refuse(a, wire.Cancelled)
		p.ok(stop)
		p.serveAll()
		must(t, c.Ping(context.Background()))
	})
}

func TestGrantThatNobodyWaitsForIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		done := doing(ctx, c, waiting(0))
		a := p.want(wire.OpAcquire)
		cancel()
		<-done
		p.ok(a) // the grant came first
		p.ok(p.want(wire.OpCancel))
		r := p.wantPast(wire.OpRelease)
		if len(r.req.Releases) != 1 || r.req.Releases[0] != (wire.ReleaseRequest{Path: "a:/b/c", Mode: wire.ModeRead}) {
			t.Fatalf("released %+v", r.req.Releases)
		}
		p.refuse(r, wire.Unavailable)
		p.ok(p.wantPast(wire.OpRelease)) // for as long as it takes
	})
}

func TestGivingBackTakesNothingFromALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		locked := make(chan *Lock)
		go func() {
			l, err := c.Lock(context.Background(), "a:/b/c", Owner("o"))
			locked <- mustLock(t, l, err)
		}()
		p.ok(p.want(wire.OpAcquire))
		l := <-locked
		ctx, cancel := context.WithCancel(context.Background())
		req := waiting(0)
		req.Locks = []wire.LockRequest{{Path: "a:/b/c"}, {Path: "a:/b/d"}}
		done := doing(ctx, c, req)
		a := p.want(wire.OpAcquire)
		cancel()
		<-done
		p.ok(a) // the grant came first
		p.ok(p.want(wire.OpCancel))
		r := p.wantPast(wire.OpRelease)
		if len(r.req.Releases) != 2 || r.req.Target != a.id { // what the lock asked for since is none of that
			t.Fatalf("released %+v of request %d, want those of %d", r.req.Releases, r.req.Target, a.id)
		}
		p.ok(r)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCancelIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		done := doing(ctx, c, waiting(0))
		a := p.want(wire.OpAcquire)
		cancel()
		<-done
		// The first overtook the acquire inside the server, and ended nothing.
		for range 3 {
			stop := p.want(wire.OpCancel)
			if stop.req.Target != a.id {
				t.Fatalf("cancelled %d, want %d", stop.req.Target, a.id)
			}
			p.ok(stop)
		}
	})
}

func TestCancelledWaitIsSettledOnTheNextConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		done := doing(ctx, c, waiting(0))
		a := p.want(wire.OpAcquire)
		p.Close()
		pass(0)
		cancel()
		<-done
		p = f.open()
		// Nobody knows whether it was granted: so it is asked once more, and ended.
		again := p.want(wire.OpAcquire)
		if again.raw != a.raw {
			t.Fatalf("asked again: %x, want %x", again.raw, a.raw)
		}
		came := time.Now()
		stop := p.want(wire.OpCancel)
		if d := time.Since(came); d > 0 {
			t.Fatalf("cancelled %v later", d)
		}
		p.refuse(again, wire.Cancelled)
		p.ok(stop)
		p.serveAll()
		must(t, c.Ping(context.Background()))
	})
}

func TestWaitEndsWithItsTimeInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		done := doing(context.Background(), c, waiting(10*time.Second))
		a := p.want(wire.OpAcquire)
		pass(5 * time.Second)
		p.refuse(a, wire.DeadlineExceeded) // too early to be that: the server gave up
		again := p.want(wire.OpAcquire)
		if again.raw != a.raw {
			t.Fatalf("repeated as %x, want %x", again.raw, a.raw)
		}
		pass(10 * time.Second)
		p.refuse(again, wire.DeadlineExceeded)
		if err := (<-done).err; !errors.Is(err, ErrDeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestAWaitThatIsOverGotNothing: the server says so by the cause, and nobody gives anything back.
func TestAWaitThatIsOverGotNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		done := doing(context.Background(), c, waiting(10*time.Second))
		a := p.want(wire.OpAcquire)
		pass(10 * time.Second)
		p.reply(a.id, a.req.Op, &wire.Result{Code: wire.DeadlineExceeded, Cause: wire.CauseWaitOver,
			Message: "it took too long"})
		err := (<-done).err
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != wire.DeadlineExceeded || refused.Cause != wire.CauseWaitOver {
			t.Fatalf("got %v", err)
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%v: is said to be of unknown outcome", err)
		}
		p.quiet(time.Minute)
	})
}

func TestLockWaitsForever(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(40 * time.Second)) // for days, and within what the server remembers
		go func() {
			if l, err := c.Lock(context.Background(), "a:/b/c"); err == nil {
				t.Errorf("got %v", l.Paths())
			}
		}()
		// A server lets a request wait for 7 days at most. Before that the client
		// connects anew and asks again, which keeps its place and starts its time anew.
		began := time.Now()
		a := p.want(wire.OpAcquire)
		if a.req.QueueTTLMillis != wire.MaxTTLMillis {
			t.Fatalf("may wait for %d ms", a.req.QueueTTLMillis)
		}
		for range 3 {
			go p.serve(func(a *asked) *wire.Result { return granted(a.req) }) // pings
			p = <-f.conns
			p.welcome(testLimits)
			if again := p.want(wire.OpAcquire); again.raw != a.raw {
				t.Fatalf("asked again: %x, want %x", again.raw, a.raw)
			}
			if d := time.Since(began); d < 3*24*time.Hour || d > 6*24*time.Hour {
				t.Fatalf("asked again after %v", d)
			}
			began = time.Now()
			p.send(wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued,
				Position: 1}}))
		}
	})
}

func TestPlaceInTheQueueIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		places := make(chan Queued, 9)
		go c.Lock(context.Background(), "a:/b/c", OnQueued(func(q Queued) { places <- q }))
		a := p.want(wire.OpAcquire)
		tell := func(position uint64) {
			p.send(wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: wire.Result{
				Status: wire.StatusQueued, Path: "a:/b", Owner: "other", Reason: wire.ReasonAncestorLocked, Token: 9,
				Position: position,
			}}))
			want := Queued{Position: position, Path: "a:/b", Owner: "other", Reason: wire.ReasonAncestorLocked,
				Token: 9}
			if got := <-places; got != want {
				t.Fatalf("told %+v, want %+v", got, want)
			}
		}
		tell(3)
		p.Close()
		p = f.open()
		a = p.want(wire.OpAcquire)
		tell(2)
	})
}

func TestWaitingAcquiresHaveAWindowOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		first := make(chan *peer, 1)
		go func() {
			p := f.accept()
			l := testLimits
			l.Waiting, l.InFlight = 2, 2
			p.welcome(l)
			first <- p
		}()
		c := dial(t, f.addr, WithDialer(f.dial))
		p := <-first
		var waits []<-chan outcome
		for range 3 {
			waits = append(waits, doing(context.Background(), c, waiting(0)))
			pass(0)
		}
		one, two := p.want(wire.OpAcquire), p.want(wire.OpAcquire)
		// The third must wait, and is in nobody's way.
		done := doing(context.Background(), c, release(1))
		p.ok(p.want(wire.OpRelease))
		must(t, (<-done).err)
		p.ok(two)
		three := p.want(wire.OpAcquire)
		p.ok(one)
		p.ok(three)
		for _, w := range waits {
			must(t, (<-w).err)
		}
	})
}
