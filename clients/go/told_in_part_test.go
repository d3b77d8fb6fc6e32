package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKilledAndNoMoreIsSaid: an owner's lease is killed under which it has more locks than a push names, and then
// nothing more gets through to the server. "Until that is told nothing is believed in for longer than a third of the
// TTL, or two seconds" (decision 0022).
func TestKilledAndNoMoreIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		var marks []uint64
		var locks []*Lock
		for i := range wire.MaxLeaseAcquires + 1 {
			got := make(chan *Lock, 1)
			go func() {
				l, err := c.Lock(context.Background(), fmt.Sprintf("a:/b/c%d", i), Owner("me"), TTL(time.Hour))
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			a := p.wantPast(wire.OpAcquire)
			p.reply(a.id, wire.OpAcquire, granted(a.req))
			locks, marks = append(locks, <-got), append(marks, p.called(a))
		}
		silent := false
		go p.serve(func(a *asked) *wire.Result {
			if silent {
				return nil
			}
			return granted(a.req)
		})
		pass(time.Minute)
		silent = true
		p.tell(wire.EventKilled, "me", marks[:wire.MaxLeaseAcquires]...)
		pass(0)
		for _, l := range locks[:wire.MaxLeaseAcquires] {
			if err := l.Err(); !errors.Is(err, ErrKilled) {
				t.Fatalf("a lock that is named: %v", err)
			}
		}
		last := locks[wire.MaxLeaseAcquires]
		for began := time.Now(); last.Err() == nil; pass(time.Second) {
			if late := time.Since(began); late > 10*time.Minute {
				t.Fatalf("%v after its lease was killed the last lock is believed in, until %v from now", late,
					time.Until(last.Deadline()))
			}
		}
		if err := last.Err(); errors.Is(err, ErrExpired) {
			t.Error(err)
		}
	})
}
