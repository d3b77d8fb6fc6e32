package pathlockd

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALogWithoutALeader: two nodes of four are gone (a switch has died: nothing answers there), and with them the
// quorum of one log. Its leader has stepped down, and it has none for a while, which is told. The client's own node n0,
// which leads the other logs, is well: it answers everything about these at once, and keeps what is about the log
// without a leader until there is one. A lock of that log, taken by way of n0, is given back meanwhile. No other node
// leads, and none knows more than n0: so the connection to n0 is not given up for that, and a lock of a log that n0
// leads all the time is kept.
func TestALogWithoutALeader(t *testing.T) {
	for name, away := range map[string]time.Duration{"for an election": 3 * time.Second,
		"for longer": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 4, 3, 0, 0, 0)
				var gone, taken atomic.Bool
				c := f.client(WithGrace(300*time.Millisecond),
					WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
						if gone.Load() && (addr == "n1:1" || addr == "n2:1") {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						if addr == "n3:1" && !taken.Load() {
							time.Sleep(time.Millisecond) // the first request does not find the lane that it has opened
						}
						return f.dial(ctx, network, addr)
					}))
				pass(0)
				// before there is a lane to n3
				l, err := c.TryLock(context.Background(), in(0), Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				if at := f.last(wire.OpAcquire).node; at != "n0" {
					t.Fatalf("it was taken by way of %s", at)
				}
				taken.Store(true)
				pass(10 * time.Millisecond)
				f.warm(c)
				if at := f.goes(c, 0); at != "n3" {
					t.Fatalf("group 0 goes by %s", at)
				}
				other, err := c.TryLock(context.Background(), in(1), TTL(time.Hour)) // n0 leads that all the time
				mustLock(t, other, err)
				pass(time.Minute)
				must(t, l.Err())
				must(t, other.Err())

				var led atomic.Bool
				f.serve = func(p *peer, a *asked) *wire.Result {
					about := ""
					switch {
					case len(a.req.Releases) > 0:
						about = namespaceOf(a.req.Releases[0].Path)
					case len(a.req.Domains) > 0:
						about = a.req.Domains[0]
					}
					if about == namespaceOf(in(0)) && !led.Load() {
						go func() {
							for !led.Load() {
								time.Sleep(50 * time.Millisecond)
							}
							p.reply(a.id, a.req.Op, granted(a.req))
						}()
						return nil
					}
					return granted(a.req)
				}
				gone.Store(true)
				f.lead(-1, 0, 0, 0)
				f.tell()
				pass(0)
				f.mu.Lock()
				hellos := len(f.hellos)
				f.mu.Unlock()
				over := make(chan struct{})
				go func() {
					defer close(over)
					_ = l.UnlockContext(within(t, time.Minute))
				}()
				pass(away)
				f.mu.Lock()
				if n := len(f.hellos) - hellos; n > 0 {
					t.Errorf("the client has left healthy nodes %d times, as a log has no leader", n)
				}
				f.mu.Unlock()
				if err := other.Err(); err != nil {
					t.Errorf("a lock of a log that n0 leads all the time: %v", err)
				}
				led.Store(true)
				f.lead(3, 0, 0, 0)
				f.tell()
				<-over
				_ = other.Unlock()
				pass(time.Second)
			})
		})
	}
}
