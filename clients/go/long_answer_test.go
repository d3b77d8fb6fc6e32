package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// slowBytes is a connection on which so many bytes come in a second.
type slowBytes struct {
	net.Conn
	rate  int
	bytes *atomic.Int64
}

func (c slowBytes) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 1500)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(c.rate))
	c.bytes.Add(int64(n))
	return n, err
}

func longPaths(n int) []Path {
	all := make([]Path, n)
	for i := range all {
		all[i].Path = fmt.Sprintf("a:/0/warehouses/north-east/shelves/%04d/orders/customer-%08d/positions/%08d",
			i%100, i, i)
	}
	return all
}

// TestALongAnswerBesideALockOfAnotherLane: two nodes, the second of which leads everything. A program is connected to
// the first, and holds one lock, which it took from the second: no lease hangs on the connection to the first. There it
// lists what another owner holds, which takes longer than a server may be silent. The way brings as many bytes a second
// as it ever did, all the time, and nothing is lost or broken. The listing comes to an end, as it does for a program
// that holds no lock.
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
				conns, bytes := 0, new(atomic.Int64)
				slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := p.dial(ctx, network, addr)
					if err != nil || addr != "n0:1" {
						return nc, err
					}
					conns++
					return slowBytes{nc, tc.rate, bytes}, nil
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
				res, err := c.call(long, &wire.Request{Op: wire.OpListLocks, Owner: "batch"}) // in one answer
				if took := time.Since(began); err != nil {
					t.Errorf("after %v, %d connections and %d bytes the listing has not come: %v", took, conns,
						bytes.Load(), err)
				} else {
					t.Logf("%d locks after %v, %d connections and %d bytes", len(list(res).Infos), took, conns,
						bytes.Load())
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

// listsBeside has a client, which holds a lock, list what another owner holds, over a way of so many bytes a second to
// a node. do is called while the listing is under way. The lock must go on to be held, and the listing come.
func listsBeside(t *testing.T, s *simServer, node, path string, rate int, do func()) {
	t.Helper()
	ctx := context.Background()
	p, other := newSimProxy(s, "c", 2), newSimProxy(s, "b", 3)
	b := dial(t, "n0:1", WithDialer(other.dial), WithName("b"), WithOneConnection())
	all, err := b.LockAll(ctx, longPaths(10_400), Owner("batch"), TTL(time.Hour))
	mustLock(t, all, err)
	slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := p.dial(ctx, network, addr)
		if err != nil || addr != node {
			return nc, err
		}
		return slowBytes{nc, rate, new(atomic.Int64)}, nil
	}
	c := dial(t, "n0:1", WithDialer(slow), WithName("c"))
	pass(100 * time.Millisecond)
	warm, err := c.Lock(ctx, "a:/0/y") // the connection to its leader is there
	mustLock(t, warm, err)
	must(t, warm.Unlock())
	pass(time.Second)
	l, err := c.Lock(ctx, path, TTL(10*time.Minute))
	mustLock(t, l, err)
	pass(3 * time.Second)
	began, listed := time.Now(), make(chan error)
	go func() {
		locks, _, err := c.ListOwnerLocks(ctx, "batch", "a:/0")
		if err == nil && len(locks) != 10_400 {
			err = fmt.Errorf("%d locks are listed", len(locks))
		}
		listed <- err
	}()
	pass(4 * time.Second)
	do()
	err = <-listed
	t.Logf("listed after %v", time.Since(began))
	must(t, err)
	must(t, l.Err())
	must(t, l.Unlock())
	must(t, c.Close())
	must(t, b.Close())
	for _, n := range s.nodes {
		n.crash()
	}
}

// TestAListingBesideALock: what another owner holds takes twenty seconds to come, on the connection on which the lease
// of a lock is renewed. The lock is held on.
func TestAListingBesideALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s := newSimServer(rand.New(rand.NewPCG(1, 1)), 1)
		s.rate = 1
		s.nodes[0].limits = simLimits
		listsBeside(t, s, "n0:1", "a:/1/x", 50_000, func() {})
	})
}

// TestAListingFromTheNextLeader: the leadership of what a program has locked goes to the node from which it is being
// told what another owner holds, which takes most of a minute. The lock is held on.
func TestAListingFromTheNextLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s := newSimServer(rand.New(rand.NewPCG(1, 1)), 2)
		s.rate = 1
		for _, n := range s.nodes {
			n.limits = simLimits
		}
		far := int(wire.GroupOf("a:/0", simLogs))
		near, mine := far, ""
		for i := 1; near == far; i++ {
			mine = fmt.Sprintf("a:/%d", i)
			near = int(wire.GroupOf(mine, simLogs))
		}
		lead := func(nears string) {
			s.mu.Lock()
			s.version++
			s.leaders = []string{"n0", "n0", "n0", "n0"}
			s.leaders[far], s.leaders[near] = "n1", nears
			s.mu.Unlock()
			s.announce()
		}
		lead("n0")
		listsBeside(t, s, "n1:1", mine+"/x", 20_000, func() { lead("n1") })
	})
}
