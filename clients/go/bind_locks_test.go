package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestBindBesideLocks: a program binds and unbinds an owner while its other goroutines take and give back locks that
// two nodes lead. Bind holds the lock of binds while the router, some way of which cannot change its lane at once,
// rouses the keeper; the keeper asks binds for the grace of a new lock while it holds its own. From then on nothing
// goes on any more: no Lock, no Unlock, no renewal, and no context of a lock ends.
func TestBindBesideLocks(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2, 0, 0, 1, 1)
	c, err := Dial(context.Background(), "n0:1", WithDialer(f.dial), WithKeepAlive(time.Hour), WithGrace(longGrace))
	must(t, err)
	bg := context.Background()
	var done, binds atomic.Int64
	stop := make(chan struct{})
	going := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	for i := range 8 {
		go func() {
			for going() {
				l, err := c.TryLock(bg, in(i%groupsOfFakeCluster))
				if err != nil {
					return
				}
				_ = l.Unlock()
				done.Add(1)
			}
		}()
	}
	go func() {
		for going() {
			if _, err := c.Bind(bg, "another owner", time.Hour, 0); err != nil {
				return
			}
			if err := c.Unbind(bg, "another owner"); err != nil {
				return
			}
			binds.Add(1)
		}
	}()
	eventually(t, "that locks are taken and owners are bound",
		func() bool { return done.Load() > 500 && binds.Load() > 50 })
	close(stop)
	must(t, c.Close())
}
