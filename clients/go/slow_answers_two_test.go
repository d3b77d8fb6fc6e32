package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestTwoSlowAnswers: a client with a grace of a second; the answer to its hello takes a second, as the server is just
// up. From then on the way takes a millisecond, but for 40 ms some time in the next seconds, in which what is sent
// takes 350 ms to get there. No connection breaks. "The server is asked for a sign of life three times within it"
// (WithGrace): one that takes 350 ms is late for none of that.
func TestTwoSlowAnswers(t *testing.T) {
	for _, hello := range []time.Duration{0, time.Second} {
		for at := time.Duration(0); at < 2*time.Second; at += 40 * time.Millisecond {
			t.Run(fmt.Sprint(hello, " ", at), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					defer pass(2 * simSilent)
					ctx := context.Background()
					s, p := aNode()
					p.late(hello / 2)
					c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"), WithGrace(time.Second))
					p.late(0)
					pass(2 * time.Second)
					l, err := c.Lock(ctx, "a:/0/x", TTL(5*time.Minute))
					mustLock(t, l, err)
					pass(at)
					p.late(350 * time.Millisecond) // what is sent now alone; its answer comes at once
					pass(40 * time.Millisecond)
					p.late(0)
					pass(3 * time.Second)
					if err := l.Err(); err != nil {
						t.Errorf("one sign of life took 350 ms, and the lock is lost: %v", err)
					}
					_ = l.Unlock()
					must(t, c.Close())
					s.nodes[0].crash()
				})
			})
		}
	}
}
