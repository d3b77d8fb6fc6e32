package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnUnbindAskedAgain: a program binds an owner for each job with a short grace, and unbinds it with the job's
// context, which has ended: the error says that nothing was sent (or that the server took nothing: UNAVAILABLE). It
// unbinds it again, and that is answered. From then on it is known that the owner is not bound ("Until it is known what
// became of a Bind or Unbind, at the latest on the next connection, the lower of the two graces counts"), so nothing of
// it is to be left: neither memory, nor the low grace, nor that everything goes by one connection.
func TestAnUnbindAskedAgain(t *testing.T) {
	for name, refused := range map[string]bool{"not sent": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const owners, short = 300, 300 * time.Millisecond
				f := newFake(t)
				c, p := f.client(WithGrace(DefaultGrace))
				refuse := false
				bound := make(map[string]bool) // at the server
				go p.serve(func(a *asked) *wire.Result {
					switch a.req.Op {
					case wire.OpBind:
						bound[a.req.Owner] = true
					case wire.OpUnbind:
						if refuse {
							return &wire.Result{Code: wire.ResourceExhausted, Message: "the test says so"}
						}
						delete(bound, a.req.Owner)
					}
					return granted(a.req)
				})
				ctx := context.Background()
				over, end := context.WithCancel(ctx)
				end()
				for i := range owners {
					owner := fmt.Sprint("job ", i)
					_, err := c.Bind(ctx, owner, short, 0)
					must(t, err)
					if refused {
						refuse = true
						err = c.Unbind(ctx, owner)
						refuse = false
					} else {
						err = c.Unbind(over, owner)
					}
					if err == nil {
						t.Fatal("unbound")
					}
					must(t, c.Unbind(ctx, owner))
				}
				if len(bound) > 0 {
					t.Fatalf("%d are bound", len(bound))
				}
				c.binds.mu.Lock()
				n := len(c.binds.owned)
				c.binds.mu.Unlock()
				if least := c.binds.least(c.opt.grace); n > 0 || least < c.opt.grace {
					t.Errorf("nobody is bound: the client keeps %d owners, gives leases a grace of %v instead of "+
						"%v, all by one connection: %v",
						n, least, c.opt.grace, c.binds.any())
				}
				// A lock that is taken now is tied with the client's grace: a server that is silent for a second costs
				// it nothing.
				l, err := c.Lock(ctx, "a:/b/c", Owner("job 0"), TTL(time.Hour))
				mustLock(t, l, err)
				if d := time.Until(l.Deadline()); d < time.Second {
					t.Errorf("a lock of an owner that is not bound counts as sure for %v", d)
				}
			})
		})
	}
}
