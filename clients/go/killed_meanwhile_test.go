package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledOfManyPathsMeanwhile: as TestKilledOfManyPaths, and what says that the lease was killed comes right behind
// the grant of the lock that it does not name: before the client keeps that.
func TestKilledOfManyPathsMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		others int
		heard  bool // the server is, and says that the owner holds all of them
	}{
		"one is left of the others": {others: 2},
		"all others are named":      {others: 1},
		"it was taken after that":   {others: 1, heard: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				_, mark := taking(t, c, p, Owner("me"))
				take := func(path string) (*asked, chan *Lock) {
					got := make(chan *Lock, 1)
					go func() {
						l, err := c.Lock(context.Background(), path, Owner("me"), TTL(time.Hour))
						if err != nil {
							t.Error(err)
						}
						got <- l
					}()
					return p.wantPast(wire.OpAcquire), got
				}
				if tc.others > 1 {
					a, got := take("a:/b/y")
					p.ok(a)
					<-got
				}
				a, got := take("a:/b/z")
				frames := wire.AppendReply(nil, a.id, wire.OpAcquire, granted(a.req))
				p.send(wire.AppendLeaseEvent(frames, &wire.LeaseEvent{
					Kind: wire.EventKilled, Owner: "me", Namespace: "a:/b", Acquires: []uint64{mark},
				}))
				last := <-got
				go p.serve(func(a *asked) *wire.Result {
					if !tc.heard {
						return nil
					}
					return granted(a.req)
				})
				pass(10 * time.Second)
				switch err := last.Err(); {
				case tc.heard:
					must(t, err)
				case err == nil:
					t.Errorf("ten seconds after its lease was killed it counts as held for %v",
						time.Until(last.Deadline()))
				case errors.Is(err, ErrExpired):
					t.Error(err)
				}
			})
		})
	}
}
