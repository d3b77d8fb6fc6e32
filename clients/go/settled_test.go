package pathlockd

import (
	"context"
	"errors"
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
