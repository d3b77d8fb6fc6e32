package pathlockd

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnansweredKeepsToItsNode: node n1 leads log 0 and never answers one kind of question: what owners hold. Once a
// minute the program takes a lock and holds it (TTL an hour). No lanes, connections and goroutines are to pile up.
func TestUnansweredKeepsToItsNode(t *testing.T) {
	for _, bad := range []bool{false, true} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 3, 1, 0, 0, 0)
				f.tells = true
				f.serve = func(p *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpListLocks {
						if p.node == "n1" && bad {
							return nil
						}
						return p.taken.of(a.req.Owner)
					}
					return granted(a.req)
				}
				listed := func() { // the test is to see the client's own questions
					f.mu.Lock()
					for _, all := range f.conns {
						for _, p := range all {
							p.lists = true
						}
					}
					f.mu.Unlock()
				}
				c := f.client()
				f.warm(c)
				listed()
				two, err := c.LockAll(t.Context(), []Path{{Path: in(0) + "/y"}, {Path: in(0) + "/z"}},
					TTL(30*time.Second))
				mustLock(t, two, err)
				var lanes []int
				for i := range 2 * 60 {
					l, err := c.TryLock(t.Context(), in(0)+fmt.Sprint("/x", i), TTL(time.Hour))
					mustLock(t, l, err)
					if two.Err() != nil {
						two, err = c.LockAll(t.Context(), []Path{{Path: in(0) + fmt.Sprint("/y", i)},
							{Path: in(0) + fmt.Sprint("/z", i)}}, TTL(30*time.Second))
						mustLock(t, two, err)
					}
					pass(time.Minute)
					listed()
					if i%60 == 59 {
						lanes = append(lanes, len(c.router.all()))
					}
				}
				t.Logf("lanes by hours: %v, goroutines %d, connections so far %d", lanes, runtime.NumGoroutine(),
					c.connections.Load())
				if n := len(c.router.all()); n > 10 {
					t.Errorf("a client of a cluster of three nodes has %d lanes, each with a connection, after "+
						"eight hours", n)
				}
			})
		})
	}
}

// TestUnansweredByALaterServer: the first server tells that a request may take an hour, the next one says 30 s, and
// never answers what an owner holds. It is given up after a minute, as 0022 says.
func TestUnansweredByALaterServer(t *testing.T) {
	for _, first := range []time.Duration{30 * time.Second, time.Hour} {
		t.Run(first.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				conns := make(chan *peer, 64)
				n := 0
				go func() {
					for {
						select {
						case p := <-f.conns:
							limits := testLimits
							limits.RequestMillis = millis(30 * time.Second)
							if n++; n == 1 {
								limits.RequestMillis = millis(first)
							}
							p.tells, p.lists = wire.FeatureLeases, true
							p.welcome(limits)
							conns <- p
							go p.serve(func(a *asked) *wire.Result {
								if a.req.Op == wire.OpListLocks {
									return nil
								}
								return granted(a.req)
							})
						case <-t.Context().Done():
							return
						}
					}
				}()
				c := dial(t, f.addr, WithDialer(f.dial), WithGrace(longGrace))
				pass(time.Second)
				keep, err := c.TryLock(t.Context(), "a:/b/x", TTL(time.Hour))
				mustLock(t, keep, err)
				pass(time.Second)
				(<-conns).Close()
				pass(time.Second)
				if c.connections.Load() != 2 {
					t.Fatal("this shows nothing", c.connections.Load())
				}
				l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, TTL(6*time.Second))
				mustLock(t, l, err)
				began := time.Now()
				for c.connections.Load() == 2 && time.Since(began) < 3*time.Hour {
					pass(time.Second)
				}
				d := time.Since(began)
				t.Logf("given up after %v", d)
				if d > 80*time.Second {
					t.Errorf("given up after %v", d)
				}
			})
		})
	}
}
