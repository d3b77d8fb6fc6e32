package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestASlowHelloOfABusyConnection: the hello of a connection took long once, as the server was just up and all of its
// clients came together. From then on the way takes a millisecond, and the client is at work all the time: something of
// it is answered every 100 ms, so that it never asks for a sign of life by itself. Ten minutes later what is sent on
// the connection gets lost, in both directions; a new one would work at once. "While it holds locks it asks for a sign
// of life three times within the grace, and gives a connection up that brings none" (doc.go); "one such time before the
// grace is over the connection is given up, so that the next one may save them" (lane.go).
func TestASlowHelloOfABusyConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  []Option
		hello time.Duration // both ways together
		busy  bool
	}{
		"grace 3 s, fast hello, busy":        {[]Option{WithGrace(3 * time.Second)}, 0, true},
		"grace 3 s, hello of a second, idle": {[]Option{WithGrace(3 * time.Second)}, time.Second, false},
		"grace 3 s, hello of a second, busy": {[]Option{WithGrace(3 * time.Second)}, time.Second, true},
		"grace 1 s, hello of 300 ms, busy":   {[]Option{WithGrace(time.Second)}, 300 * time.Millisecond, true},
		"grace 5 s, hello of 1.5 s, busy":    {[]Option{WithGrace(5 * time.Second)}, 1500 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				ctx := context.Background()
				s, p := aNode()
				p.late(tc.hello / 2)
				c := dial(t, "n0:1", append([]Option{WithDialer(p.dial), WithName("c")}, tc.opts...)...)
				p.late(0)
				pass(100 * time.Millisecond)
				l, err := c.Lock(ctx, "a:/0/x", TTL(5*time.Minute))
				mustLock(t, l, err)
				for range 6000 {
					if tc.busy {
						other, err := c.TryLock(ctx, "a:/1/x")
						mustLock(t, other, err)
						must(t, other.Unlock())
					}
					pass(100 * time.Millisecond)
				}
				must(t, l.Err())
				p.each(func(l *simLink) { l.lose(toServer, toClient) })
				pass(c.opt.grace * 2)
				if err := l.Err(); err != nil {
					t.Errorf("a new connection would have saved the lock: %v", err)
				}
				_ = l.Unlock()
				must(t, c.Close())
				s.nodes[0].crash()
			})
		})
	}
}
