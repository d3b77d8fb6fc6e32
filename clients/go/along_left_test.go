package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestWhatGoesAlongLeavesTheRest: a lock of two paths, and a later one of its owner on one of them, under the same
// token. The later one is given back, so the first is lost; and its program gives the first back, as it is to: what is
// left of it is not held any more then, though the owner holds something else.
func TestWhatGoesAlongLeavesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		ctx := context.Background()
		hours(t, c, "a:/b/kept")
		x, err := c.LockAll(ctx, []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(time.Hour))
		mustLock(t, x, err)
		y := hours(t, c, "a:/b/c")
		pass(10 * time.Second)
		must(t, y.Unlock())
		_ = x.Unlock()
		pass(time.Minute)
		if !s.rival("a:/b/d") {
			t.Errorf("given back, and held a minute later\n%s", s.happened())
		}
		if !s.rival("a:/b/c") {
			t.Errorf("c given back, and held a minute later\n%s", s.happened())
		}
	})
}
