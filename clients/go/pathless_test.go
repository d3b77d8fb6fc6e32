package pathlockd

import (
	"context"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAcquireOfNothingIsGivenUp: an acquire may have paths to release and none to take. There is nothing to take back
// when its caller leaves before it is answered.
func TestAcquireOfNothingIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ctx, cancel := context.WithCancel(context.Background())
		done := doing(ctx, c, &wire.Request{
			Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, QueueTTLMillis: 60_000, Flags: wire.FlagWait,
			Releases: []wire.ReleaseRequest{{Path: "a:/b"}},
		})
		a := p.want(wire.OpAcquire)
		cancel()
		<-done
		p.reply(a.id, wire.OpAcquire, &wire.Result{})
		pass(givesUp)
	})
}
