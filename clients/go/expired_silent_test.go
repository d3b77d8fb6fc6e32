package pathlockd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnEndThatNobodyConfirms: as TestAKillThatNobodyConfirms, and what is told is that the lease ran out: another
// client of the owner may have renewed it for less. A lease ends with all that is held under it, named or not.
func TestAnEndThatNobodyConfirms(t *testing.T) {
	expired := sub1(wire.Event{Kind: wire.EventExpired, At: wire.Position{Log: 2, Index: 11}})
	for name, tell := range map[string]func(p *peer, mark uint64){
		"by the owner's events":   func(p *peer, _ uint64) { p.send(wire.AppendEvent(nil, expired)) },
		"and others are named":    func(p *peer, mark uint64) { p.tell(wire.EventExpired, "me", mark+1) },
		"and it is not told whom": func(p *peer, _ uint64) { p.tell(wire.EventExpired, "me") },
	} {
		for how, heard := range map[string]bool{"and nobody answers": false, "and it was taken since": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.telling()
					var silent atomic.Bool
					go p.serve(func(a *asked) *wire.Result {
						if silent.Load() {
							return nil
						}
						return granted(a.req)
					})
					l, err := c.Lock(context.Background(), "a:/b/c", Owner("me"), TTL(time.Hour))
					mustLock(t, l, err)
					pass(10 * watchAfter)
					silent.Store(!heard)
					tell(p, wire.AcquireMark(l.as, l.by))
					pass(askedWithin)
					switch err := l.Err(); {
					case heard:
						must(t, err)
					case err == nil:
						t.Errorf("its lease is told to be over, and it counts as held for %v", time.Until(l.Deadline()))
					case errors.Is(err, ErrKilled):
						t.Error(err)
					}
				})
			})
		}
	}
}
