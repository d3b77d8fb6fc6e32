package pathlockd

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCloseJustAfterAGoodbye: a node says goodbye 14 (it is restarted: what hangs on the connection keeps its TTL, and
// the grace does not count), and the client is closed 10 ms later, while it connects to another node, which takes 50
// ms. What it holds is given back there: Close has a second, in which it asks elsewhere, and only what no server hears
// of by then is left.
func TestCloseJustAfterAGoodbye(t *testing.T) {
	for name, after := range map[string]time.Duration{"while it connects": 10 * time.Millisecond,
		"once it has": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 0, 0, 0)
				c := f.client(WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					select {
					case <-time.After(50 * time.Millisecond):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					return f.dial(ctx, network, addr)
				}))
				f.warm(c)
				l, err := c.TryLock(context.Background(), in(0), TTL(time.Hour))
				mustLock(t, l, err)
				before := f.last(wire.OpRelease)
				f.mu.Lock()
				f.dead["n0"] = true
				all := f.conns["n0"]
				f.conns["n0"] = nil
				f.mu.Unlock()
				for _, p := range all {
					p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the node is shutting down")))
					p.Close()
				}
				pass(after)
				must(t, l.Err())
				began := time.Now()
				must(t, c.Close())
				took := time.Since(began)
				pass(time.Second) // who still dials
				if r := f.last(wire.OpRelease); r.asked == before.asked || r.req.Owner != l.Owner() {
					t.Errorf("Close took %v and gave nothing back: the lock stays for its TTL of an hour", took)
				}
			})
		})
	}
}
