package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestToldEarlyThatNobodyConfirms: as TestToldEarly, and nobody answers what is asked then: who was told by name that
// its lock is lost does not believe in it for long, whether it is kept already or not.
func TestToldEarlyThatNobodyConfirms(t *testing.T) {
	named, own := []LockOption{TTL(time.Hour), Owner("me")}, []LockOption{TTL(time.Hour)}
	for name, tc := range map[string]struct {
		kind  wire.EventKind
		opts  []LockOption
		other error // is not the cause
	}{
		"killed":                       {wire.EventKilled, own, ErrExpired},
		"killed, of a named owner":     {wire.EventKilled, named, ErrExpired},
		"it ran out":                   {wire.EventExpired, own, ErrKilled},
		"it ran out, of a named owner": {wire.EventExpired, named, ErrKilled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				got := make(chan *Lock, 1)
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/c", tc.opts...)
					if err != nil {
						t.Error(err)
					}
					got <- l
				}()
				a := p.want(wire.OpAcquire)
				p.tell(tc.kind, a.req.Owner, p.called(a))
				p.ok(a)
				l := <-got
				go p.serve(func(*asked) *wire.Result { return nil })
				pass(10 * time.Second)
				if err := l.Err(); err == nil {
					t.Errorf("ten seconds after it was told that its lease is over it counts as held for %v",
						time.Until(l.Deadline()))
				} else if errors.Is(err, tc.other) {
					t.Error(err)
				}
			})
		})
	}
}
