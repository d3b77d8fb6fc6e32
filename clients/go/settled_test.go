package pathlockd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// remembering is the limits of a server that keeps answers until they are settled.
func remembering() wire.Limits {
	l := testLimits
	l.Answers = 1024
	return l
}

// TestAnswersAreSettled as they come: not above one that is open, and none that may be
// asked again under its id.
func TestAnswersAreSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		first := make(chan *peer, 1)
		go func() {
			p := f.accept()
			p.welcome(remembering())
			first <- p
		}()
		c := dial(t, f.addr, WithDialer(f.dial), WithKeepAlive(time.Hour))
		p := <-first
		settled := func(owner string) uint64 {
			done := doing(context.Background(), c, &wire.Request{Op: wire.OpForceRelease, Owner: owner})
			a := p.want(wire.OpForceRelease)
			if a.req.Settled > a.id {
				t.Fatalf("request %d settles all below %d", a.id, a.req.Settled)
			}
			p.ok(a)
			must(t, (<-done).err)
			return a.req.Settled
		}
		pass(0)
		begun := settled("a")
		if again := settled("b"); again <= begun {
			t.Fatalf("all below %d, and then below %d are settled", begun, again)
		}
		unsure := doing(context.Background(), c, &wire.Request{Op: wire.OpForceRelease, Owner: "unsure"})
		open := p.want(wire.OpForceRelease)
		for range 3 * settledEvery {
			if s := settled("c"); s > open.id {
				t.Fatalf("all below %d are settled while %d is open", s, open.id)
			}
		}
		p.refuse(open, wire.DeadlineExceeded)
		pass(0)
		if s := settled("d"); s > open.id { // it is repeated after a pause
			t.Fatalf("all below %d are settled while %d is to be asked again", s, open.id)
		}
		again := p.want(wire.OpForceRelease)
		if again.id != open.id {
			t.Fatalf("request %d was asked again as %d", open.id, again.id)
		}
		p.ok(again)
		must(t, (<-unsure).err)
		if s := settled("e"); s <= open.id {
			t.Fatalf("all below %d are settled, and nothing is open", s)
		}
	})
}

// TestPingsTellWhatIsAnsweredBesideAWait: above an acquire that waits nothing can be settled. What was answered there
// pings tell, also on a connection on which something is answered all the time, and nothing above what has no answer.
func TestPingsTellWhatIsAnsweredBesideAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, p := newFake(t).limited(remembering())
		var mu sync.Mutex
		pings, last, wait, open := 0, uint64(0), uint64(0), uint64(0)
		go p.serve(func(a *asked) *wire.Result {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.req.Op == wire.OpPing:
				want := a.id
				if pings++; open != 0 {
					want = open
				}
				if wait != 0 && a.req.Settled != want {
					t.Errorf("ping %d: all below %d but waits are answered, and it tells %d", a.id, want, a.req.Settled)
				}
				return granted(a.req)
			case a.req.Op == wire.OpAcquire:
				wait = a.id
				return nil
			case a.req.Owner == "hangs":
				open = a.id
				return nil
			case wait != 0 && a.req.Settled > wait:
				t.Errorf("request %d settles all below %d, and %d waits", a.id, a.req.Settled, wait)
			}
			last = a.id
			return granted(a.req)
		})
		go func() { _, _ = c.Lock(t.Context(), "a:/b") }()
		for minute := range 2 {
			for range 60 {
				_ = c.ForceRelease(t.Context(), "you", "")
				pass(time.Second)
			}
			mu.Lock()
			if least := int(time.Minute/DefaultKeepAlive) - 1; pings < least || last == 0 {
				t.Errorf("%d pings in minute %d, want %d", pings, minute, least)
			}
			pings = 0
			mu.Unlock()
			go func() { _ = c.ForceRelease(t.Context(), "hangs", "") }()
			pass(0)
		}
	})
}

// TestAForgottenAnswerIsUnknown: the server refuses a repeat whose answer it does not keep.
func TestAForgottenAnswerIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := doing(context.Background(), c, &wire.Request{Op: wire.OpIncrToken})
		p.want(wire.OpIncrToken)
		p.Close()
		p = f.open()
		p.refuse(p.want(wire.OpIncrToken), wire.Forgotten)
		if err := (<-done).err; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
	})
}
