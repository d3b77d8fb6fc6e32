package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCloseWhileAGrantIsConfirmed: a lock is granted after a third of its TTL in the queue, so its lease is renewed
// before it is handed out; the client is closed meanwhile. What was granted is given back.
func TestCloseWhileAGrantIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, peer := f.client()
		acquires, renewals := make(chan *asked, 1), make(chan *asked, 1)
		var released atomic.Bool
		go peer.serve(func(a *asked) *wire.Result {
			switch a.req.Op {
			case wire.OpAcquire:
				acquires <- a // it waits
				return nil
			case wire.OpRenew:
				renewals <- a // on its way to the server
				return nil
			case wire.OpRelease:
				released.Store(true)
			}
			return granted(a.req)
		})
		told := make(chan error, 1)
		go func() {
			_, err := c.Lock(context.Background(), "a:/b/p", TTL(30*time.Second))
			told <- err
		}()
		acquire := <-acquires
		pass(12 * time.Second)
		peer.ok(acquire)
		renewal := <-renewals
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		pass(100 * time.Millisecond)
		peer.ok(renewal)
		must(t, <-closed)
		if err := <-told; err == nil {
			t.Fatal("a closed client has a lock")
		}
		if pass(time.Second); !released.Load() {
			t.Fatal("what was granted to the client that was closed then was not given back")
		}
	})
}
