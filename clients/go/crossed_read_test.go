package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReadThatCrossesAnotherOnesEnd: two goroutines use one owner. While one asks for the read of a path, the other
// gives its own read of it back, which may take what the first is granted along; and what the server says of a read
// does not tell whose it is: a third one of the owner may have it by then, and give it back. So it is given back, and
// asked for anew. Writes are told apart by what the server says.
func TestAReadThatCrossesAnotherOnesEnd(t *testing.T) {
	for name, mode := range map[string]Mode{"read": Read, "write": Write} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				ctx := context.Background()
				take := func() chan *Lock {
					locks := make(chan *Lock, 1)
					go func() {
						l, err := c.TryLockAll(ctx, []Path{{Path: "a:/b/x", Mode: mode}, {Path: "a:/b/z"}}, Owner("me"),
							TTL(time.Hour))
						mustLock(t, l, err)
						locks <- l
					}()
					return locks
				}
				first := take()
				p.ok(p.want(wire.OpAcquire))
				l := <-first
				second := take()
				crossing := p.want(wire.OpAcquire)
				done := make(chan error, 1)
				go func() { done <- l.Unlock() }()
				gives := p.want(wire.OpRelease)
				p.ok(crossing)
				p.ok(gives)
				must(t, <-done)
				anew := false
				go p.serve(func(a *asked) *wire.Result {
					anew = anew || a.req.Op == wire.OpAcquire
					return granted(a.req)
				})
				pass(10 * time.Second)
				if len(second) == 0 {
					t.Fatal("no lock")
				}
				if anew != (mode == Read) {
					t.Errorf("asked for anew: %v", anew)
				}
			})
		})
	}
}
