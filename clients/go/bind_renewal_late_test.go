package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARenewalBehindABindForMore: an owner is bound with a short grace. A lock of its is granted after a long wait, and
// renewed before it is handed out. While that renewal is under way the owner is bound with a longer grace, which is
// answered. Renewals and Binds are in no order (PROTOCOL.md, Order): the renewal, which was asked for while the short
// grace counted, may be carried out last, and then the lease has that.
func TestARenewalBehindABindForMore(t *testing.T) {
	const short = 300 * time.Millisecond
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithGrace(DefaultGrace), WithKeepAlive(time.Hour))
		bind(t, c, p, "o", short, 0)
		locks := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(context.Background(), "a:/b/c", Owner("o"), TTL(time.Minute))
			mustLock(t, l, err)
			locks <- l
		}()
		acquire := p.want(wire.OpAcquire)
		pass(30 * time.Second)
		p.ok(acquire)
		late := p.want(wire.OpRenew)
		bind(t, c, p, "o", time.Minute, 0) // carried out before the renewal is
		p.ok(late)
		// the next one, which is not answered any more; the look at what is held is answered on the way
		p.want(wire.OpRenew)
		l := <-locks
		if d := time.Until(l.Deadline()); d > short {
			t.Errorf("its lease may have a grace of %v; it counts as sure for %v with nothing heard", short, d)
		}
	})
}
