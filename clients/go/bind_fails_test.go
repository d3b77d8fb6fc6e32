package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// bindsWithin counts the Binds of "o" that come on a connection within a while, whose requests are all granted.
func bindsWithin(p *peer, d time.Duration) (n int) {
	n = 0
	for end := time.Now().Add(d); ; {
		p.SetReadDeadline(end)
		a, err := p.read()
		if err != nil {
			return n
		}
		if a.req.Op == wire.OpBind && a.req.Owner == "o" {
			n++
		}
		p.ok(a)
	}
}

// TestABindBesideOneThatFails: two Binds of an owner are under way. The second fails, as its caller goes; the first is
// answered: the owner is bound, and its program was told so. On the next connection it is to be bound again.
func TestABindBesideOneThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.Bind(context.Background(), "o", time.Minute, 0)
			first <- err
		}()
		a := p.want(wire.OpBind)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, err := c.Bind(ctx, "o", time.Minute, 0)
			second <- err
		}()
		b := p.want(wire.OpBind)
		cancel()
		if err := <-second; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		p.ok(a)
		must(t, <-first)
		p.ok(b)
		p.Close()
		p = f.open()
		if n := bindsWithin(p, time.Minute); n == 0 {
			t.Error("Bind was answered, and on the next connection the owner is not bound")
		}
	})
}

// TestABoundOwnerStaysBound: an owner is bound. A second Bind is under way as the connection breaks; the next server
// takes nothing for a while, and the second Bind's caller goes. The first still stands: on this connection, too, the
// owner is to be bound, else its leases end with the one before.
func TestABoundOwnerStaysBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		bind(t, c, p, "o", time.Minute, time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := c.Bind(ctx, "o", 2*time.Minute, 0)
			failed <- err
		}()
		p.want(wire.OpBind)
		p.Close()
		p = f.open()
		for range 2 { // the second Bind, and the owner's on this connection
			p.refuse(p.want(wire.OpBind), wire.Unavailable)
		}
		cancel()
		if err := <-failed; err == nil {
			t.Fatal("bound")
		}
		if n := bindsWithin(p, 10*time.Minute); n == 0 {
			t.Error("ten minutes later the owner is not bound on this connection")
		}
	})
}
