package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// keeping is a server that keeps answers until they are settled.
func keeping() wire.Limits {
	l := testLimits
	l.Answers = 1024
	return l
}

// TestARepeatThatIsTooMuchIsNotSettled: a request is not answered before its connection ends, and its repeat is refused
// with code 8, which says nothing of the first time. The client is going to repeat it once more; so what it sends
// meanwhile must not say that it has the answer (`settled`): the server then refuses the repeat with code 101
// (PROTOCOL.md section 3).
func TestARepeatThatIsTooMuchIsNotSettled(t *testing.T) {
	for _, code := range []wire.Code{wire.Unavailable, wire.ResourceExhausted} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				way := &line{dialer: f.dial}
				opened := make(chan *peer, 1)
				open := func() *peer {
					p := f.accept()
					p.welcome(keeping())
					return p
				}
				go func() { opened <- open() }()
				c := dial(t, f.addr, WithDialer(way.dial), WithGrace(longGrace), WithKeepAlive(time.Hour))
				p := <-opened
				done := doing(t.Context(), c, &wire.Request{Op: wire.OpIncrToken})
				first := p.wantPast(wire.OpIncrToken)
				way.cut(nil)
				p = open()
				again := p.wantPast(wire.OpIncrToken)
				if again.id != first.id {
					t.Fatalf("request %d is repeated as %d", first.id, again.id)
				}
				p.refuse(again, code)
				pass(0)
				go func() { _, _, _ = c.Health(context.Background()) }() // somebody else asks something meanwhile
				other := p.wantPast(wire.OpHealth)
				p.ok(other)
				again = p.wantPast(wire.OpIncrToken)
				if again.id == first.id && other.req.Settled > first.id {
					t.Errorf("request %d is repeated, after request %d said that all below %d is settled", first.id,
						other.id, other.req.Settled)
					p.refuse(again, wire.Forgotten) // as a server does
				} else {
					p.ok(again)
				}
				if got := <-done; got.err != nil {
					t.Error(got.err)
				}
			})
		})
	}
}
