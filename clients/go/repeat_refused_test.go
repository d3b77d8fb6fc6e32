package pathlockd

import (
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGoToldThatSurelyNothingWasDone: a node carries out an acquire of Go, and the connection breaks before the answer.
// The client asks again under its id on the next one, where a node that has no leader refuses it: UNAVAILABLE (or
// RESOURCE_EXHAUSTED), which "to a repeat says nothing of the first time" (PROTOCOL.md). What done is told must not say
// that surely nothing was done: "When it was a repeat that no server took, the error is ErrOutcomeUnknown"
// (IsUnavailable).
func TestGoToldThatSurelyNothingWasDone(t *testing.T) {
	for name, batch := range map[string]bool{"Go": false, "Batch": true} {
		for _, code := range []wire.Code{wire.Unavailable, wire.ResourceExhausted} {
			t.Run(name+" "+code.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
					var told error
					done := func(_ *wire.Result, err error) { told = err }
					req := &wire.Request{Op: wire.OpAcquire, Owner: "o", TTLMillis: 3600_000,
						Locks: []wire.LockRequest{{Path: "a:/b"}}}
					if batch {
						b := c.Batch()
						must(t, b.Add(req, done))
						must(t, b.Send(within(t, time.Second)))
					} else {
						c.Go(req, done)
					}
					first := p.wantPast(wire.OpAcquire) // it is carried out
					way.cut(nil)
					p = f.open()
					again := p.wantPast(wire.OpAcquire)
					if again.id != first.id {
						t.Fatal("another id")
					}
					p.refuse(again, code)
					pass(time.Second)
					if told == nil {
						t.Fatal("it was told nothing")
					}
					if !errors.Is(told, ErrOutcomeUnknown) {
						t.Errorf("it holds a:/b for an hour, and is told %q (IsUnavailable: %v)", told,
							IsUnavailable(told))
					}
				})
			})
		}
	}
}

// TestARefusedRepeatOfDo: likewise for what waits for its answer, and what a node refuses of a repeat for good: its
// paths have come to several namespaces since, say (codes 3 and 9). "Nothing was changed by a refused request" (Error).
func TestARefusedRepeatOfDo(t *testing.T) {
	for _, code := range []wire.Code{wire.InvalidArgument, wire.FailedPrecondition} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour))
				told := make(chan error, 1)
				go func() {
					_, err := c.Do(within(t, time.Minute), &wire.Request{Op: wire.OpAcquire, Owner: "o",
						TTLMillis: 3600_000, Locks: []wire.LockRequest{{Path: "a:/b"}, {Path: "a:/c"}}})
					told <- err
				}()
				first := p.wantPast(wire.OpAcquire) // it is carried out
				way.cut(nil)
				p = f.open()
				again := p.wantPast(wire.OpAcquire)
				if again.id != first.id {
					t.Fatal("another id")
				}
				p.refuse(again, code)
				if err := <-told; !errors.Is(err, ErrOutcomeUnknown) {
					t.Errorf("it holds both for an hour, and is told %q", err)
				}
			})
		})
	}
}
