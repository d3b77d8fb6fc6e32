package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestANamedOwnerOnAFarWay: nobody else wants the path, the way to the server and back takes always the same, nothing
// is wrong. The lock is taken and handed out, or an error says that it cannot be; the client does not ask for ever.
// With an owner of its own it is.
func TestANamedOwnerOnAFarWay(t *testing.T) {
	for _, opts := range [][]LockOption{{TTL(time.Second)}, {TTL(time.Second), Owner("o")}} {
		for _, way := range []time.Duration{150, 180, 220} {
			t.Run(fmt.Sprint("named ", len(opts) > 1, ", ", way*time.Millisecond), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					defer pass(2 * simSilent)
					s, p := aNode()
					p.late(way * time.Millisecond)
					c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					began := time.Now()
					l, err := c.Lock(ctx, "a:/0/x", opts...)
					s.mu.Lock()
					n := len(s.notes)
					s.mu.Unlock()
					if err != nil {
						t.Errorf("after %v, in which %d requests came: %v", time.Since(began), n, err)
					} else {
						_ = l.Unlock()
					}
					must(t, c.Close())
					s.nodes[0].crash()
				})
			})
		}
	}
}
