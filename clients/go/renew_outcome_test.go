package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAShorteningOfUnknownOutcome: a program renews an owner for a second. A node has handed that on to a leader that
// does not answer, and says that the outcome is not known (code 4); the caller's context ends, before that or in the
// pause before the repeat. "Nothing raises it above that until there is an answer, also if nobody waits for that any
// more" (decision 0022): what is under way in the cluster may be carried out later.
func TestAShorteningOfUnknownOutcome(t *testing.T) {
	const short = time.Second
	for name, before := range map[string]bool{"the caller goes before": true, "in the pause": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				l := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
				ctx, cancel := context.WithCancel(context.Background())
				told := make(chan error, 1)
				go func() {
					_, err := c.Renew(ctx, "me", short, "", 0)
					told <- err
				}()
				under := p.want(wire.OpRenew)
				for under.req.TTLMillis != uint64(short.Milliseconds()) {
					p.ok(under)
					under = p.want(wire.OpRenew)
				}
				if before {
					cancel()
					if err := <-told; !errors.Is(err, ErrOutcomeUnknown) {
						t.Fatal(err)
					}
					told <- ErrOutcomeUnknown
				}
				p.refuse(under, wire.DeadlineExceeded)
				cancel()
				if err := <-told; !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
				pass(short)
				if left := time.Until(l.Deadline()); l.Err() == nil && left > short {
					t.Errorf("the lock counts as held for %v more; nobody knows of the renewal for %v, which may be "+
						"carried out now", left, short)
				}
			})
		})
	}
}

// TestAShorteningByGoOfUnknownOutcome is TestAShorteningOfUnknownOutcome without a caller who could go.
func TestAShorteningByGoOfUnknownOutcome(t *testing.T) {
	const short = time.Second
	bubble(t, func(t *testing.T) {
		defer pass(2 * time.Minute)
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		l := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
		told := make(chan error, 1)
		req := &wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: millis(short)}
		c.Go(req, func(_ *wire.Result, err error) { told <- err })
		under := p.want(wire.OpRenew)
		for under.req.TTLMillis != uint64(short.Milliseconds()) {
			p.ok(under)
			under = p.want(wire.OpRenew)
		}
		p.refuse(under, wire.DeadlineExceeded)
		if err := <-told; codeOf(err) != wire.DeadlineExceeded {
			t.Fatal(err)
		}
		go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
		for range 50 {
			pass(time.Second)
			if left := time.Until(l.Deadline()); l.Err() == nil && left > short {
				t.Fatalf("the lock counts as held for %v more; nobody knows of the renewal for %v", left, short)
			}
		}
		pass(30 * time.Second) // no log takes it any more
		if left := time.Until(l.Deadline()); left < 30*time.Second {
			t.Errorf("the lock counts as held for %v more, and is renewed for a minute: %v", left, l.Err())
		}
	})
}
