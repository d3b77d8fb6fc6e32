package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAHomeThatIsSlow: the node of the home lane is cut off from its peers and not from the client: it answers pings,
// and everything else after request_timeout_ms. It leads nothing: the other node, to which the client has a lane, leads
// all and answers at once. Locks are kept, whoever named their owner ("a node that takes longer than two seconds is
// left for another, where its session goes on: it may be cut off from its peers and not from the client").
func TestAHomeThatIsSlow(t *testing.T) {
	for name, paths := range map[string][]Path{
		"an owner of its own": {{Path: in(0)}}, "an owner that the program names": {{Path: in(0)}},
		"several paths": {{Path: in(0)}, {Path: in(0) + "/y"}},
	} {
		var opts []LockOption
		if name == "an owner that the program names" {
			opts = append(opts, Owner("me"))
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 1, 1, 1)
				c := f.client()
				f.warm(c)
				for _, p := range f.hellos {
					p.lists = true
				}
				off := make(chan struct{})
				renewed, tried := 0, 0
				f.serve = func(p *peer, a *asked) *wire.Result {
					select {
					case <-off:
						switch {
						case p.node == "n0" && a.req.Op != wire.OpPing:
							tried++
							time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
							return nil
						case a.req.Op == wire.OpRenew:
							renewed++
						}
					default:
					}
					if a.req.Op == wire.OpListLocks {
						return p.taken.of(a.req.Owner)
					}
					return granted(a.req)
				}
				if f.goes(c, 0) != "n1" {
					t.Fatal("requests do not go by the lane")
				}
				l, err := c.TryLockAll(context.Background(), paths, opts...)
				mustLock(t, l, err)
				pass(2 * time.Second)
				close(off)
				for i := range 120 {
					pass(time.Second)
					if err := l.Err(); err != nil {
						t.Fatalf("%d s later, after %d renewals that its leader took, and %d questions to the other: %v", i+1, renewed, tried, err)
					}
				}
				must(t, l.Unlock())
			})
		})
	}
}

// TestAHomeThatTakesNothing: the node of the home lane answers pings, and refuses everything else after
// request_timeout_ms. What is in no namespace goes by it. Pings say nothing of that: it is left for the other node when
// it has refused twice.
func TestAHomeThatTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 1, 1, 1, 1)
		c := f.client()
		f.warm(c)
		l, err := c.TryLock(context.Background(), in(0), TTL(time.Hour)) // so that it asks for signs of life
		mustLock(t, l, err)
		pass(2 * time.Second)
		f.slow("n0", wire.Unavailable, grants)()
		if err := c.ReleaseAll(within(t, 2*time.Minute), "somebody", false, ""); err != nil {
			t.Errorf("two minutes later: %v", err)
		}
		must(t, l.Unlock())
	})
}
