package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2WaitGivenUpBetweenRepeats: a waiting acquire of Do whose caller goes is cancelled, and
// what it was granted is released (Do). Not so when the caller goes between two repeats of it:
// what was granted when it was asked first stays held for its TTL.
func TestAdv2WaitGivenUpBetweenRepeats(t *testing.T) {
	for _, open := range []bool{true, false} {
		name := map[bool]string{true: "a repeat is under way", false: "the next repeat is still to come"}[open]
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client()
				ctx, cancel := context.WithCancel(context.Background())
				left := make(chan error, 1)
				go func() {
					_, err := c.Do(ctx, &wire.Request{
						Op: wire.OpAcquire, Owner: "me", TTLMillis: 3_600_000, QueueTTLMillis: 3_600_000, Flags: wire.FlagWait,
						Locks: []wire.LockRequest{{Path: "a:/b/c"}},
					})
					left <- err
				}()
				first := p.want(wire.OpAcquire) // granted: the path is held from now on
				p.Close()
				p = f.open()
				var a *asked
				for try := range 12 { // until the pauses are long ones
					if a = p.want(wire.OpAcquire); a.id != first.id {
						t.Fatalf("repeated as %d, want %d", a.id, first.id)
					}
					if try < 11 || !open {
						p.refuse(a, wire.Unavailable)
					}
				}
				pass(maxRetry / 10)
				cancel()
				err := <-left
				if open {
					p.refuse(a, wire.Unavailable)
				}
				p.SetReadDeadline(time.Now().Add(time.Minute))
				for {
					r, broken := p.read()
					if broken != nil {
						t.Fatalf("Do answered %v; within a minute nobody cancels or gives back what request %d took: %v", err, first.id, broken)
					}
					p.ok(r)
					if r.req.Op == wire.OpRelease && r.req.Target == first.id {
						return
					}
				}
			})
		})
	}
}
