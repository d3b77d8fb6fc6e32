package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedBindsAreForgotten: a server has as many bound owners of a connection as it takes (limits.bound_owners),
// and refuses each further Bind with RESOURCE_EXHAUSTED: "One of them that is refused changes nothing, unless with code
// 4" (PROTOCOL.md). The program goes on without, and unbinds what it has bound, each owner but once. On a connection
// that lasts, the client keeps all of them, and for each lock and each look at the connection goes through them.
func TestRefusedBindsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const owners, short = 1000, 300 * time.Millisecond
		f := newFake(t)
		c, p := f.client(WithGrace(DefaultGrace))
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpBind {
				return &wire.Result{Code: wire.ResourceExhausted,
					Message: "1024 owners are bound to this connection, at most 1024 are taken"}
			}
			return granted(a.req)
		})
		ctx := context.Background()
		for i := range owners {
			owner := fmt.Sprint("job ", i)
			if _, err := c.Bind(ctx, owner, short, 0); !errors.Is(err, ErrResourceExhausted) {
				t.Fatal(err)
			}
			must(t, c.Unbind(ctx, owner))
		}
		c.binds.mu.Lock()
		n := len(c.binds.owned)
		c.binds.mu.Unlock()
		if least := c.binds.least(c.opt.grace); n > 0 || least < c.opt.grace {
			t.Errorf("nobody is bound: the client keeps %d owners, and gives leases a grace of %v instead of %v", n,
				least, c.opt.grace)
		}
	})
}

// TestTwoBindsThatFail: two goroutines bind an owner, and the server takes neither. Both are told so; so on the next
// connection nothing is bound: "an error says ... that the owner is bound on the next one as before" (binds.end).
func TestTwoBindsThatFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithGrace(DefaultGrace))
		told := make(chan error, 2)
		ask := func() {
			_, err := c.Bind(context.Background(), "o", time.Second, 0)
			told <- err
		}
		go ask()
		first := p.want(wire.OpBind)
		go ask()
		second := p.want(wire.OpBind)
		p.refuse(first, wire.ResourceExhausted)
		if err := <-told; !errors.Is(err, ErrResourceExhausted) {
			t.Fatal(err)
		}
		p.refuse(second, wire.ResourceExhausted)
		if err := <-told; !errors.Is(err, ErrResourceExhausted) {
			t.Fatal(err)
		}
		p.Close()
		p = f.open()
		p.SetReadDeadline(time.Now().Add(3 * time.Second))
		for {
			a, err := p.read()
			if err != nil {
				return
			}
			if a.req.Op == wire.OpBind {
				t.Fatalf("%s is bound with a grace of %d ms, although both Binds were refused; all goes by one "+
					"connection: %v",
					a.req.Owner, a.req.GraceMillis, c.binds.any())
			}
			p.ok(a)
		}
	})
}
