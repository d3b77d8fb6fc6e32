package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAWaitIsOverTooEarly: the server says that a wait's time is over, and its caller waits on, without a limit or for
// an hour more, as when a server's clock is ahead. It is asked for anew: under its old id the answer would be the same.
func TestAWaitIsOverTooEarly(t *testing.T) {
	for name, limit := range map[string]time.Duration{"no limit": 0, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				ctx, cancel := context.WithCancel(context.Background())
				if limit > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), limit)
				}
				defer cancel()
				got := make(chan error, 1)
				go func() {
					_, err := c.Lock(ctx, "a:/b/c")
					got <- err
				}()
				a := p.want(wire.OpAcquire)
				pass(10 * time.Second)
				p.reply(a.id, a.req.Op, &wire.Result{Code: wire.DeadlineExceeded, Cause: wire.CauseWaitOver,
					Message: "the time in the queue is over"})
				again := p.want(wire.OpAcquire)
				if again.id == a.id {
					t.Error("it is asked again under its id")
				}
				p.ok(again)
				must(t, <-got)
			})
		})
	}
}
