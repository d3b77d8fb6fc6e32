package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestOneSlowAnswerBeforeASilence: a lock with a grace is held over a fast way. One answer takes long once (a pause of
// the server, a full buffer on the way), and shortly after that what is sent on the connection gets lost, on the way,
// in both directions; a new one would work at once. "While it holds locks it asks for a sign of life three times within
// the grace, and gives a connection up that brings none", "One such time before the grace is over the connection is
// given up, so that the next one may save them" (doc.go, lane.go). The way is not long: it takes a millisecond, but for
// that once.
func TestOneSlowAnswerBeforeASilence(t *testing.T) {
	for name, tc := range map[string]struct {
		opts   []Option
		hiccup time.Duration // both ways together
		after  time.Duration
	}{
		"grace 3 s, none":   {[]Option{WithGrace(3 * time.Second)}, 0, 2 * time.Second},
		"grace 3 s, 950 ms": {[]Option{WithGrace(3 * time.Second)}, 950 * time.Millisecond, 50 * time.Millisecond},
		"grace 5 s, 1.6 s":  {[]Option{WithGrace(5 * time.Second)}, 1600 * time.Millisecond, 100 * time.Millisecond},
		"grace 1 s, none":   {[]Option{WithGrace(time.Second)}, 0, 500 * time.Millisecond},
		"grace 1 s, 300 ms": {[]Option{WithGrace(time.Second)}, 300 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				ctx := context.Background()
				s, p := aNode()
				c := dial(t, "n0:1", append([]Option{WithDialer(p.dial), WithName("c")}, tc.opts...)...)
				l, err := c.Lock(ctx, "a:/0/x", TTL(5*time.Minute))
				mustLock(t, l, err)
				pass(20 * time.Second)
				must(t, l.Err())
				if tc.hiccup > 0 {
					p.late(tc.hiccup / 2)
					pass(c.opt.grace/3 + tc.hiccup/2) // until a ping has met it
					p.late(0)
				}
				pass(tc.hiccup + tc.after)
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
