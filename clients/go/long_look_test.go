package pathlockd

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestALongLookBesideALock: a program holds very many paths in one lock, and another lock. Once in a TTL the client
// asks by itself what it holds. All of that takes a minute to come over this way, on the connection on which the leases
// are renewed, and more than a grace. "Nothing long goes before a renewal" (decision 0022). The locks are held on.
func TestALongLookBesideALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		const ttl = 5 * time.Minute
		ctx := context.Background()
		s := newSimServer(rand.New(rand.NewPCG(1, 1)), 1)
		s.rate = 1
		s.nodes[0].limits = simLimits
		p := newSimProxy(s, "c", 2)
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := p.dial(ctx, network, addr)
			if err != nil {
				return nc, err
			}
			return slowBytes{nc, 50_000, new(atomic.Int64)}, nil
		}
		c := dial(t, "n0:1", WithDialer(slow), WithName("c"))
		many, err := c.LockAll(ctx, longPaths(10_400), Owner("batch"), TTL(ttl))
		mustLock(t, many, err)
		l, err := c.Lock(ctx, "a:/1/x", TTL(ttl))
		mustLock(t, l, err)
		for range 12 {
			pass(ttl / 6)
			must(t, l.Err())
			must(t, many.Err())
		}
		must(t, l.Unlock())
		must(t, many.Unlock())
		must(t, c.Close())
		s.nodes[0].crash()
	})
}
