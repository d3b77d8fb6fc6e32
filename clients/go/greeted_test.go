package pathlockd

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAGrantBesideAHelloThatCameToNothing: a lock is granted while its caller is in OnQueued, as that of `pathlock
// run`, which asks there who is in the way. Its server says goodbye 14, and the client says hello elsewhere; that
// server hears it, and the connection ends before the welcome comes. "The ties hang on its new connection from the
// hello on" (PROTOCOL.md section 3), so the lease ends a grace after that, also if the lock is handed out later. The
// control hands it out before the goodbye.
func TestAGrantBesideAHelloThatCameToNothing(t *testing.T) {
	const grace, ttl = 15 * time.Second, 5 * time.Minute
	for name, tc := range map[string]struct{ late, again bool }{
		"handed out before": {}, "handed out after": {late: true}, "handed out after two": {late: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				var dead atomic.Bool
				c, p := f.client(WithGrace(grace),
					WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
						if dead.Load() {
							return nil, errNobody
						}
						return f.dial(ctx, network, addr)
					}))
				told := make(chan takenLock, 1)
				wait := make(chan struct{})
				if !tc.late {
					close(wait)
				}
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/c", TTL(ttl), OnQueued(func(Queued) { <-wait }))
					told <- takenLock{l, err}
				}()
				a := p.want(wire.OpAcquire)
				p.send(wire.AppendQueued(nil,
					&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				pass(100 * time.Millisecond)
				p.ok(a)
				pass(0)
				p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the server stops")))
				heard := f.accept() // the hello
				pass(0)
				dead.Store(true) // and nobody listens any more, as the proxy to the servers is gone
				heard.Close()
				began := time.Now()
				// another hello does not make the lease last longer, and is heard of no more than that one
				if tc.again {
					pass(2 * time.Second)
					dead.Store(false)
					heard = f.accept()
					pass(0)
					dead.Store(true)
					heard.Close()
				}
				if tc.late {
					close(wait)
				}
				one := <-told
				l := mustLock(t, one.l, one.err)
				pass(time.Until(began.Add(grace)))
				if err := l.Err(); err == nil {
					t.Errorf("hello was said on a connection that ended %v ago, the grace is %v, and the lock "+
						"counts as held for %v more",
						time.Since(began), grace, time.Until(l.Deadline()))
				}
				must(t, c.Close())
			})
		})
	}
}
