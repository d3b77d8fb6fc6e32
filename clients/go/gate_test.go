package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// locking takes a lock in the background, and answers a function of what became of it.
func locking(c *Client, opts ...LockOption) chan func() error {
	got := make(chan func() error, 1)
	go func() {
		l, err := c.Lock(context.Background(), "a:/b/c", opts...)
		got <- func() error {
			if err != nil {
				return err
			}
			return l.Err()
		}
	}()
	return got
}

// TestUnlockOfAnUncertainLockComesBeforeTheNext: what gives the lost lock back is settled,
// however often it has to be asked, before its owner asks for the next one.
func TestUnlockOfAnUncertainLockComesBeforeTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		asked := make(chan *asked, 1)
		go func() {
			a := p.want(wire.OpAcquire)
			asked <- a
			p.ok(a)
		}()
		l, err := c.Lock(context.Background(), "a:/b/c", Owner("o"))
		mustLock(t, l, err)
		acquire := <-asked
		way.cut(errUnreachable)
		lostBy(t, l, ErrUncertain)
		if err := l.Unlock(); !errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
		got := locking(c, Owner("o"))
		way.mend()
		p = f.open()
		p.refuse(p.wantPast(wire.OpRelease), wire.Unavailable)
		release := p.wantPast(wire.OpRelease)
		if release.req.Target != acquire.id {
			t.Fatalf("it gives back what request %d took, want %d", release.req.Target, acquire.id)
		}
		pass(time.Second)
		if len(got) > 0 {
			t.Fatal("a lock before the release of the last one was answered")
		}
		p.ok(release)
		p.ok(p.want(wire.OpAcquire))
		must(t, (<-got)())
	})
}

// TestUndoComesBeforeTheNext: a grant that crosses its cancel is taken back before its
// owner asks again.
func TestUndoComesBeforeTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go func() {
			_, err := c.Lock(ctx, "a:/b/c", Owner("o"))
			left <- err
		}()
		acquire := p.want(wire.OpAcquire)
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		got := locking(c, Owner("o"))
		p.ok(p.want(wire.OpCancel))
		p.ok(acquire) // the grant came first
		p.refuse(p.wantPast(wire.OpRelease), wire.Unavailable)
		release := p.wantPast(wire.OpRelease)
		pass(time.Second)
		if len(got) > 0 {
			t.Fatal("a lock before the last one was taken back")
		}
		p.ok(release)
		p.ok(p.wantPast(wire.OpAcquire))
		must(t, (<-got)())
	})
}

// TestAnOwnersGateDoesNotOutliveItsCaller: who waits for it leaves when its context ends.
func TestAnOwnersGateDoesNotOutliveItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			p.want(wire.OpAcquire)
			cancel() // and it is never answered
		}()
		if _, err := c.Lock(ctx, "a:/b/c", Owner("o")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		short, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		if _, err := c.Lock(short, "a:/b/c", Owner("o")); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	})
}

// TestARequestThatIsDroppedLeavesItsGate: a release in the background whose time is over is
// not asked again, whether its connection broke before that or after it.
func TestARequestThatIsDroppedLeavesItsGate(t *testing.T) {
	for _, first := range []string{"the connection", "its time"} {
		t.Run(first+" ends first", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f)
				l := lockWith(t, c, p, Owner("o"), TTL(time.Second))
				way.cut(errUnreachable)
				lostBy(t, l, ErrUncertain)
				way.mend()
				p = f.open()
				if err := l.Unlock(); !errors.Is(err, ErrUncertain) {
					t.Fatal(err)
				}
				p.wantPast(wire.OpRelease) // and no answer
				if first == "its time" {
					p.serveAll() // pings
					pass(2 * givesUp)
				}
				way.cut(errUnreachable)
				pass(2 * givesUp)
				way.mend()
				f.open().serveAll()
				_, err := c.TryLock(within(t, time.Hour), "a:/b/c", Owner("o"))
				must(t, err)
			})
		})
	}
}
