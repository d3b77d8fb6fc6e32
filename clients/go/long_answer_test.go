package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// slowBytes is a connection on which so many bytes come in a second.
type slowBytes struct {
	net.Conn
	rate  int
	bytes *int
}

func (c slowBytes) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 1500)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(c.rate))
	*c.bytes += n
	return n, err
}

func longPaths(n int) []Path {
	all := make([]Path, n)
	for i := range all {
		all[i].Path = fmt.Sprintf("a:/0/warehouses/north-east/shelves/%04d/orders/customer-%08d/positions/%08d", i%100, i, i)
	}
	return all
}

// TestALongAnswerBesideALockOfAnotherLane: two nodes, the second of which leads everything. A program is connected to
// the first, and holds one lock, which it took from the second: no lease hangs on the connection to the first. There it
// lists what another owner holds, which takes longer than a server may be silent. The way brings as many bytes a second as it
// ever did, all the time, and nothing is lost or broken. The listing comes to an end, as it does for a program that
// holds no lock.
func TestALongAnswerBesideALockOfAnotherLane(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []Option
		rate int // bytes a second
		hold bool
	}{
		"no lock":           {nil, 20_000, false},
		"a lock":            {nil, 20_000, true},
		"a lock, grace 3 s": {[]Option{WithGrace(3 * time.Second)}, 100_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				ctx := context.Background()
				s := newSimServer(rand.New(rand.NewPCG(1, 1)), 2)
				s.rate = 1
				for _, n := range s.nodes {
					n.limits = simLimits
				}
				s.leaders = []string{"n1", "n1", "n1", "n1"}
				p, other := newSimProxy(s, "c", 2), newSimProxy(s, "b", 3)
				b := dial(t, "n0:1", WithDialer(other.dial), WithName("b"), WithOneConnection())
				all, err := b.LockAll(ctx, longPaths(2600), Owner("batch"), TTL(time.Hour))
				mustLock(t, all, err)
				conns, bytes := 0, 0
				slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := p.dial(ctx, network, addr)
					if err != nil || addr != "n0:1" {
						return nc, err
					}
					conns++
					return slowBytes{nc, tc.rate, &bytes}, nil
				}
				c := dial(t, "n0:1", append([]Option{WithDialer(slow), WithName("c")}, tc.opts...)...)
				s.announce()
				pass(100 * time.Millisecond)
				var l *Lock
				if tc.hold {
					warm, err := c.Lock(ctx, "a:/1/y") // the lane to the second node is opened for it
					mustLock(t, warm, err)
					must(t, warm.Unlock())
					pass(time.Second)
					l, err = c.Lock(ctx, "a:/1/x", TTL(10*time.Minute))
					mustLock(t, l, err)
				}
				long, cancel := context.WithTimeout(ctx, 5*time.Minute)
				defer cancel()
				began := time.Now()
				locks, _, err := c.ListOwnerLocks(long, "batch")
				if took := time.Since(began); err != nil {
					t.Errorf("after %v, %d connections and %d bytes the listing has not come: %v", took, conns, bytes, err)
				} else {
					t.Logf("%d locks after %v, %d connections and %d bytes", len(locks), took, conns, bytes)
				}
				if l != nil {
					must(t, l.Err())
					_ = l.Unlock()
				}
				must(t, c.Close())
				must(t, b.Close())
				for _, n := range s.nodes {
					n.crash()
				}
			})
		})
	}
}
