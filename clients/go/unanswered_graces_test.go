package pathlockd

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnansweredBesideShortGraces: a server never tells what one owner holds (a page that it has forgotten), and
// answers all else at once. Other owners' locks, with a grace that is shorter than it takes to connect anew, end with
// each connection: that gets rarer.
func TestUnansweredBesideShortGraces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(400 * time.Millisecond) // TLS on a way of 100 ms
			return f.dial(ctx, network, addr)
		}
		c, s := newTimedAt(t, f, WithDialer(slow), WithGrace(400*time.Millisecond), WithKeepAlive(5*time.Second))
		go s.again(f)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && req.Owner == "odd" {
				return 1000 * time.Hour, false
			}
			return time.Millisecond, false
		})
		lost := 0
		healthy, err := c.TryLock(t.Context(), "a:/h/x", TTL(30*time.Second))
		mustLock(t, healthy, err)
		pass(30 * time.Minute)
		must(t, healthy.Err())
		odd, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("odd"), TTL(time.Hour))
		mustLock(t, odd, err)
		for range 4 * 3600 {
			pass(time.Second)
			if healthy.Err() != nil {
				if lost++; lost == 1 {
					t.Log("the healthy one: ", healthy.Err(), "; connections ", c.connections.Load())
				}
				healthy, err = c.Lock(t.Context(), "a:/h/x", TTL(30*time.Second))
				mustLock(t, healthy, err)
			}
			if odd.Err() != nil {
				t.Log("the odd one: ", odd.Err())
				odd, err = c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("odd"),
					TTL(time.Hour))
				mustLock(t, odd, err)
			}
		}
		if lost > unansweredDoublings+4 {
			t.Errorf("a healthy lock was lost %d times in four hours, as another owner's question has no answer", lost)
		}
	})
}
