package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAWaitGivenUpBeforeThereIsNoRoom: two callers wait for locks; one goes, and its lock is granted meanwhile, of
// which nobody hears, as the connection breaks. The next server takes one wait of a connection (limits.waiting), and
// the other caller's is in its way for as long as that lasts. What the first took is to be given back.
func TestAWaitGivenUpBeforeThereIsNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		bg := context.Background()
		go func() { _, _ = c.Lock(bg, "a:/b/p") }()
		p.want(wire.OpAcquire)
		ctx, cancel := context.WithCancel(bg)
		gone := make(chan error, 1)
		go func() {
			_, err := c.Lock(ctx, "a:/b/q", Owner("me"))
			gone <- err
		}()
		mine := p.want(wire.OpAcquire)
		cancel()
		<-gone
		p.Close() // with the grant
		p = f.accept()
		limits := testLimits
		limits.Waiting = 1
		p.welcome(limits)
		settled := false
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case a.id == mine.id || a.req.Op == wire.OpRelease && a.req.Target == mine.id:
				settled = true
			case a.req.Op == wire.OpAcquire && a.req.Locks[0].Path == "a:/b/p":
				return nil // somebody else holds it
			}
			return granted(a.req)
		})
		pass(10 * time.Minute)
		if !settled {
			t.Error("ten minutes later what the wait took is neither asked for nor given back")
		}
		soon, stop := context.WithTimeout(bg, time.Minute)
		defer stop()
		if _, err := c.TryLock(soon, "a:/b/r", Owner("me")); err != nil {
			t.Errorf("another lock of its owner: %v", err)
		}
		must(t, c.Close())
	})
}
