package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTwoBindsAtOnce: of two Binds of an owner at once nobody knows which the server carries out last. Until a later
// one is answered the lower grace counts, though both are.
func TestTwoBindsAtOnce(t *testing.T) {
	const short = 200 * time.Millisecond
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithGrace(DefaultGrace))
		done := make(chan error, 2)
		var asked []*asked
		for _, grace := range []time.Duration{short, time.Minute} {
			go func() {
				_, err := c.Bind(context.Background(), "o", grace, 0)
				done <- err
			}()
			asked = append(asked, p.want(wire.OpBind))
		}
		for _, a := range asked {
			p.ok(a)
			must(t, <-done)
		}
		l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
		if d := time.Until(l.Deadline()); d > short {
			t.Errorf("the lock counts as held for %v; its connection may end with a grace of %v", d, short)
		}
		bind(t, c, p, "p", short, 0) // another owner's says nothing
		bind(t, c, p, "o", time.Minute, 0)
		o := c.binds.owned["o"]
		if o.grace != DefaultGrace {
			t.Errorf("a later one is answered, and its leases count with a grace of %v", o.grace)
		}
	})
}

// TestABindOfUnknownOutcomeIsKnownLater: nobody knows what became of a second Bind. On the next connection the owner is
// bound as before, and once that is answered, and a third Bind, its grace is that one's.
func TestABindOfUnknownOutcomeIsKnownLater(t *testing.T) {
	const short = 200 * time.Millisecond
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithGrace(DefaultGrace))
		bind(t, c, p, "o", time.Minute, 0)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := c.Bind(ctx, "o", short, 0)
			done <- err
		}()
		p.want(wire.OpBind)
		cancel()
		if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		p.Close()
		p = f.open()
		p.ok(p.want(wire.OpBind))
		pass(time.Millisecond)
		bind(t, c, p, "o", short, 0)
		bind(t, c, p, "o", time.Minute, 0)
		if o := c.binds.owned["o"]; o.grace != DefaultGrace {
			t.Errorf("its leases count with a grace of %v", o.grace)
		}
	})
}
